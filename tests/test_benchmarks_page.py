"""Collecting the lines of benchmarks, and the page that is made of them."""

import ast
import dataclasses
import doctest
import importlib
import re
import subprocess
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import circumstances, collecting
from benchmarks.catalogue import BENCHMARKS, OF_PEERS, Benchmark
from benchmarks.circumstances import ROOT
from benchmarks.page import tables
from benchmarks.page.results import Result, Run, read_result, read_results, write_result
from benchmarks.page.sections import SECTIONS
from benchmarks.page.writing import render

MACHINE = {"processor": "Abacus, 2 cores", "TensorFlow": "2.21.0"}
RUN = Run("2026-12-01T10:00:00+00:00", "aaaaaaaaaa", ["depth"], MACHINE, {}, 5.0)
OLD = dataclasses.replace(RUN, date="2026-11-20T10:00:00+00:00", revision="bbbbbbbbbb")


def depth_line(layers, recompute, **others):
    line = {"benchmark": "depth", "layers": layers, "recompute": recompute}
    return line | {"parameters": 11_683_584, "build_seconds": 1, "first_step_seconds": 9} | others


DEPTH = [
    depth_line(1, False, first_step_seconds=6.7),
    depth_line(1, True, first_step_seconds=7.0),
    depth_line(12, False, step_mb=473, step_seconds=[4.7, 4.6, 4.9]),
    depth_line(12, True, step_mb=169, step_seconds=[6.0, 5.9, 6.2], first_step_seconds=12.6),
]


def section(page, title):
    [found] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    return found


def rows(text):
    """Of the tables in a text: the cells behind the first, by the first."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    return {first: others for first, *others in cells}


def page_of(name, lines, **others):
    page, charts = render({name: Result(RUN, lines, **others)})
    return section(page, SECTIONS[name].title), charts


def step_line(benchmark, seconds, peak_mb, **others):
    line = {"benchmark": benchmark, "shape": "4x512", "policy": "mixed_bfloat16"}
    line |= {"seconds": seconds, "peak_mb": peak_mb, "tokens_per_second": 700}
    return line | {"floor_fraction": 0.5} | others


def test_a_step_is_pooled_over_its_processes_and_its_ratio_is_of_the_medians():
    lines = [
        step_line("training_step", [4, 5, 6], 2000, floor_fraction=0.7),
        step_line("training_step_keras_hub", [8, 10, 12], 4000),
        step_line("training_step_keras_hub", [5, 5, 5], 3900),
        step_line("training_step", [4, 6, 8], 2100, floor_fraction=0.8),
    ]
    text, _ = page_of("training_step", lines)
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if "4x512" in line]
    # Of 4 4 5 6 6 8 the median is 5.5, of 5 5 5 8 10 12 it is 6.5; 5.5 / 6.5 = 0.846. Of the
    # processes 5 / 10 and 6 / 5. The memory is the greater of two: 2,100 / 4,000.
    ours = ["4x512, bfloat16", "ours", "5.50 (4.00 to 8.00)", "700", "0.750", "2,100"]
    assert [cell for cell in cells[0] if cell.strip()] == ours
    assert cells[1][1:3] == ["keras-hub", "6.50 (5.00 to 12.0)"]
    assert cells[1][-2:] == ["0.846 (0.500 to 1.20)", "0.525"]


def scaling_lines():
    lines = []
    for recompute in (False, True):
        for length, varied in ((64, ["length"]), (128, ["length", "batch"])):
            seconds, megabytes = length / 64 * (1.5 if recompute else 1), 100 + length
            lines.append((12, 8, length, recompute, varied, seconds, megabytes))
        lines.append((12, 32, 128, recompute, ["batch"], 8, 1000))
        for layers, varied in ((1, ["depth"]), (24, ["depth"])):
            lines.append((layers, 8, 128, recompute, varied, layers / 6, 50 * layers))
    names = ("layers", "rows", "length", "recompute", "varied")
    return [
        {"benchmark": "scaling", **dict(zip(names, line, strict=False))}
        | {"step_seconds": [line[5], line[5] - 0.1, line[5] + 0.1], "step_mb": line[6]}
        for line in lines
    ]


def test_scaling_has_a_table_for_each_series():
    text, _ = page_of("scaling", scaling_lines())
    length, batch, depth = re.split("^With ", text, flags=re.M)[1:]
    assert length.startswith("12 layers and 8 rows:")
    assert rows(length)["length"] == ["64", "128"]
    assert rows(length)["seconds"] == ["1.00 (0.900 to 1.10)", "2.00 (1.90 to 2.10)"]
    assert rows(length)["seconds, recomputed"][0] == "1.50 (1.40 to 1.60)"
    assert batch.startswith("12 layers and 128 pieces a row:")
    assert rows(batch)["rows"] == ["8", "32"] and rows(batch)["MB"] == ["228", "1,000"]
    assert depth.startswith("8 rows and 128 pieces a row:")
    assert rows(depth)["MB, recomputed"] == ["50.0", "1,200"]


def test_the_plot_shows_the_points_of_the_lines():
    pytest.importorskip("matplotlib")
    text, charts = page_of("scaling", scaling_lines())
    assert "](benchmarks/scaling.svg)" in text and list(charts) == ["scaling.svg"]
    assert page_of("scaling", scaling_lines())[1] == charts  # the same bytes
    svg = ElementTree.fromstring(charts["scaling.svg"])
    space = "{http://www.w3.org/2000/svg}"
    for gid, x, y in (
        ("seconds-length-plain", [64, 128], [1, 2]),
        ("seconds-batch-recomputed", [8, 32], [3, 8]),
        ("megabytes-depth-plain", [1, 24], [50, 1200]),
    ):
        [group] = svg.findall(f".//{space}g[@id='{gid}']")
        path = group.find(f"{space}path").attrib["d"]
        points = np.array(re.findall(r"[ML] (\S+) (\S+)", path), float)
        # The drawing's heights grow downwards, and its axes are linear and begin at 0: with all
        # lines of a panel, the least value of two must be as far above 0 as it is.
        assert (np.diff(points[:, 0]) > 0).all() == (np.diff(x) > 0).all()
        [panel] = [one for one in svg.iter(f"{space}g") if group in list(one)]
        zero = float(panel.find(f"{space}g/{space}path").attrib["d"].split()[2])
        heights = zero - points[:, 1]
        assert heights[1] / heights[0] == pytest.approx(y[1] / y[0], rel=1e-4)


def test_depth_stands_in_columns_of_its_layers():
    text, _ = page_of("depth", DEPTH)
    found = rows(text)
    assert found["layers"] == ["1", "12"]
    assert found["memory of a step, MB"] == ["", "473"]
    assert found["a step, s"] == ["", "4.70 (4.60 to 4.90)"]
    assert found["tracing and compiling, s"] == ["6.70", "9.00"]
    assert found["memory, recomputed, MB"] == ["", "169"]
    assert found["a step, recomputed, s"] == ["", "6.00 (5.90 to 6.20)"]
    assert found["tracing and compiling, recomputed, s"] == ["7.00", "12.6"]
    assert found["parameters"] == ["11,683,584", "11,683,584"]


def test_serving_has_percentiles_and_the_ratios_to_the_best_peer():
    def line(contender, short, batch):
        line = {"benchmark": "serving", "contender": contender}
        for question, unit, value in (("short", "ms", short), ("batch", "s", batch)):
            prefix = f"{question}_{unit}"
            line |= {f"{prefix}_p50": value, f"{prefix}_p99": 2 * value}
            line |= {f"{prefix}_of_rounds": [value, value], f"{question}_tokenizing": 0.01}
            line[f"{question}_samples"] = 100
        return line

    ratios = {"benchmark": "serving_ratios", "short_best_peer": "keras-hub", "short_ours": 0.5}
    ratios |= {"batch_best_peer": "hugging-face", "batch_ours": 0.4, "machine": "x86_64"}
    text, _ = page_of("serving", [line("ours", 12, 2), line("keras-hub", 24, 6), ratios])
    short, batch = text.split("| 32 texts, s |")
    assert rows(short)["ours"] == ["12.0", "24.0", "12.0 to 12.0", "0.0100", "100"]
    assert "of the best peer, keras-hub: ours 0.500." in short
    assert rows(batch)["keras-hub"][:2] == ["6.00", "12.0"]
    assert "of the best peer, hugging-face: ours 0.400." in batch


def test_the_formats_for_devices():
    lines = [
        {"benchmark": "edge", "format": "keras", "ms_1x16": [5, 4, 6]},
        {"benchmark": "edge", "format": "onnx", "ms_1x16": [3, 2, 4], "bytes": 12_100_000}
        | {"of_parameters": 1.04, "largest_difference": {"logits": 0.0123}, "equal_labels": 0.99},
    ]
    found = rows(page_of("edge", lines)[0])
    assert found["keras"][-1] == "5.00 (4.00 to 6.00)"
    assert found["onnx"] == ["12.1", "1.04", "0.0123", "99.0 %", "3.00 (2.00 to 4.00)"]


def test_the_data_parts():
    rate = {"least": 8, "most": 10, "wall": 7.5, "glibc_tunables": ""}
    records = {"benchmark": "text_to_records", "sentences": "split", "length": 512} | rate
    batches = {"benchmark": "records_to_batches", "length": 128, "batch_size": 32, "corpora": 3}
    lines = [
        {"benchmark": "tokenizer_alone", "megabytes_per_s": 9} | rate,
        records | {"megabytes_per_s": 9, "glibc_tunables": "malloc=1"}
        | {"tokens_of_a_full_chunk": 0.95, "chunks_with_two_sentences": 0.999},
        batches | rate | {"million_tokens_per_s": 9}
        | {"real_tokens": 0.9, "masked_of_real_tokens": 0.15},
    ]  # fmt: skip
    found = rows(page_of("data_pipeline", lines)[0])
    of_rate = ["9.00 (8.00 to 10.0)", "7.50"]
    assert found["the op on text in memory"][:2] == of_rate
    assert found["split, length 512"] == [*of_rate, "95.0 %", "99.9 %", "`malloc=1`"]
    assert found["32x128"] == ["3", *of_rate, "90.0 %", "15.0 %"]

    line = {"benchmark": "records_at_size", "text_megabytes": 1000, "workers": 2, "seconds": 80}
    line |= {"megabytes_per_s": 12.5, "megabytes_before": 643, "peak_megabytes": 697}
    line["peak_megabytes_of_a_worker"] = 650
    found = rows(page_of("records_at_size", [line])[0])
    assert found["1,000"] == ["2", "80.0", "12.5", "643", "697", "650"]


def test_the_inputs_share_and_the_batches_of_fine_tuning():
    line = {"benchmark": "input_share", "preset": "base", "shape": "16x128", "difference": 0.005}
    line |= {"step_seconds_input_on": [4.1, 4, 5], "step_seconds_input_off": [4.08, 4, 5]}
    line["difference_of_rounds"] = [0.004, -0.023, 0.016]
    found = rows(page_of("input_share", [line])[0])
    assert found["base, 16x128"][0] == "4.10 (4.00 to 5.00)"
    assert found["base, 16x128"][2:] == ["0.5 %", "-2.3 % to 1.6 %"]

    kind = {"examples_per_second": [30, 29, 31], "examples_per_processor_second": [15, 14, 16]}
    kind |= {"to_maximum": [2, 1.9, 2.1], "pieces_of_positions": 0.93}
    line = {"benchmark": "finetuning_batches", "preset": "base", "layers": 2, "batch": 16}
    line |= {"length": 128, "similar": kind, "longest": kind, "maximum": kind}
    text, _ = page_of("finetuning_batches", [line])
    assert "| of similar length | 30.0 (29.0 to 31.0) | 15.0 (14.0 to 16.0) | 2.00 (1.90" in text


def test_what_is_older_than_the_rest_of_the_page_says_so():
    fresh, other = Result(RUN, DEPTH), Result(OLD, scaling_lines())
    page, _ = render({"depth": fresh, "scaling": other})
    assert "Older figures" not in section(page, SECTIONS["depth"].title)
    assert "on 2026-11-20" in section(page, SECTIONS["scaling"].title)
    assert "**Older figures**: revision `bbbbbbbbbb`." in page
    assert rows(page)["revision"] == ["`aaaaaaaaaa`"]

    elsewhere = dataclasses.replace(OLD, machine=MACHINE | {"processor": "Quipu, 1 core"})
    page, _ = render({"depth": fresh, "scaling": Result(elsewhere, scaling_lines())})
    assert "**Older figures**: revision `bbbbbbbbbb`, processor Quipu, 1 core." in page


def test_a_failure_is_told_and_the_old_figures_stay():
    failed = {"date": "2026-12-02T10:00:00+00:00", "revision": "cccccccccc", "reason": "no disk"}
    text, _ = page_of("depth", DEPTH, failed=failed)
    assert "**The last attempt failed**, on 2026-12-02 at `cccccccccc`: no disk." in text
    assert rows(text)["memory of a step, MB"] == ["", "473"]
    page, _ = render({"depth": Result(None, [], failed)})
    text = section(page, SECTIONS["depth"].title)
    assert "no disk." in text and "Not measured yet." in text


def test_peers_that_took_no_part_are_missed():
    lines = [step_line("training_step", [1, 2], 9)]
    text, _ = page_of("training_step", lines)
    assert "without the peers" in text
    with_peers = dataclasses.replace(RUN, peers={"keras-hub": "0.32.0"})
    page, _ = render({"training_step": Result(with_peers, lines)})
    assert "without the peers" not in page and rows(page)["keras-hub (peer)"] == ["0.32.0"]


def test_the_revision_is_of_what_is_measured(tmp_path, monkeypatch):
    def commit(name):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        subprocess.run([*git, "add", name], check=True)
        subprocess.run([*git, "commit", "-qm", name], check=True)
        return circumstances.revision()

    monkeypatch.setattr(circumstances, "ROOT", tmp_path)
    assert circumstances.revision() == "unknown+changes"
    git = ["git", "-C", tmp_path, "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    library = commit("albert_keras/model.py")
    assert re.fullmatch("[0-9a-f]{10}", library)
    assert commit("README.md") == commit("benchmarks/page/tables.py") == library
    assert commit("benchmarks/results/depth.jsonl") == library
    benchmark = commit("benchmarks/depth.py")
    assert benchmark != library
    (tmp_path / "README.md").write_text("more")
    assert circumstances.revision() == benchmark
    (tmp_path / "albert_keras" / "new.py").touch()
    assert circumstances.revision() == f"{benchmark}+changes"


def test_every_benchmark_has_a_section_and_its_command_beside_it():
    page, charts = render({})
    assert list(SECTIONS) == list(BENCHMARKS) and charts == {}
    for name, benchmark in BENCHMARKS.items():
        text = section(page, SECTIONS[name].title)
        assert f"`python -m benchmarks {name}`, about {benchmark.minutes} minutes." in text
        for command in benchmark.commands:
            module, *arguments = command.split()
            code = (ROOT / "benchmarks" / f"{module}.py").read_text()
            for flag in arguments:
                assert not flag.startswith("--") or f'"{flag}"' in code, command


def test_results_are_read_as_they_were_written(tmp_path):
    result = Result(RUN, DEPTH, {"date": "d", "revision": "r", "reason": "Größe"})
    write_result(tmp_path / "results" / "depth.jsonl", result)
    assert read_results(tmp_path / "results", ["scaling", "depth"]) == {"depth": result}
    never = Result(None, [], {"date": "d", "revision": "r", "reason": "disk"})
    write_result(tmp_path / "depth.jsonl", never)
    assert read_result(tmp_path / "depth.jsonl") == never


def test_a_broken_line_of_results_is_refused_by_name(tmp_path):
    path = tmp_path / "depth.jsonl"
    write_result(path, Result(RUN, DEPTH))
    whole = path.read_text()
    path.write_text(whole[:-20])
    with pytest.raises(ValueError, match=r"depth\.jsonl, line 5 is damaged"):
        read_result(path)
    path.write_text(whole.replace('"benchmark": "depth", "layers": 1,', '"layers": 1,', 1))
    with pytest.raises(ValueError, match=r"depth\.jsonl, line 2 must have the keys benchmark"):
        read_result(path)
    path.write_text(whole.replace('"revision"', '"version"', 1))
    with pytest.raises(ValueError, match=r"depth\.jsonl, line 1: `run` must have date"):
        read_result(path)
    path.write_text("")
    with pytest.raises(ValueError, match=r"depth\.jsonl, line 1"):
        read_result(path)


@pytest.mark.parametrize("change", [{"layers": None}, {"step_seconds": 3}])
def test_lines_that_the_page_cannot_show_are_refused_by_name(change):
    broken = [*DEPTH[:-1], {**DEPTH[-1], **change}]
    with pytest.raises(ValueError, match="The lines of depth must be as its benchmark prints"):
        render({"depth": Result(RUN, broken)})


def test_commands_are_collected_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "good.py").write_text(
        "import os, sys; print('loading'); assert not any('OPENBLAS' in k for k in os.environ);"
        'print(\'{"benchmark": "good", "of": "\' + sys.argv[1] + \'"}\')'
    )
    (folder / "cut.py").write_text("""print('{"benchmark": "cu')""")
    (folder / "nameless.py").write_text("print('{}')")
    (folder / "silent.py").write_text("print('done')")
    (folder / "dead.py").write_text("""print('{"benchmark": "dead"}'); raise SystemExit(3)""")
    found = collecting.collect(["good first", "good second"], tmp_path)
    assert [line["of"] for line in found] == ["first", "second"]
    for command, reason in (
        ("cut", "a line of `cut` is damaged"),
        ("nameless", "a line of `nameless` must have the keys benchmark"),
        ("silent", "`silent` printed no line"),
        ("dead", "`dead` ended with 3"),
    ):
        with pytest.raises(collecting.BenchmarkFailedError, match=reason):
            collecting.collect(["good first", command], tmp_path)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """`python -m benchmarks` with two benchmarks that take no time; gives what it has run."""
    main = importlib.import_module("benchmarks.__main__")
    ran = []

    def collect(commands):
        ran.append(commands)
        if "broken" in main.now():
            raise main.BenchmarkFailedError("`depth` ended with 1")
        return DEPTH if commands == ["depth"] else [step_line("training_step", [1], 9)]

    few = {"depth": Benchmark(("depth",), 1)}
    few["training_step"] = Benchmark(("training_step", OF_PEERS[0]), 1, has_peers=True)
    for name, value in {
        "RESULTS": tmp_path / "results",
        "DOCS": tmp_path / "docs",
        "BENCHMARKS": few,
        "collect": collect,
        "machine": lambda: MACHINE,
        "revision": lambda: "aaaaaaaaaa",
        "versions_of_peers": dict,
        "now": lambda: RUN.date,
    }.items():
        monkeypatch.setattr(main, name, value)
    return main, ran, tmp_path, monkeypatch


def test_what_is_measured_is_kept_until_it_is_named_or_anything_changes(bench, capsys):
    main, ran, folder, monkeypatch = bench
    assert main.main([]) == 0 and ran == [["depth"], ["training_step"]]  # no peers here
    assert "473" in (folder / "docs" / "benchmarks.md").read_text()
    assert main.main([]) == 0 and len(ran) == 2
    assert "depth is kept: measured at aaaaaaaaaa" in capsys.readouterr().err
    assert main.main(["depth"]) == 0 and ran[2:] == [["depth"]]
    assert main.main(["--page"]) == 0 and len(ran) == 3
    monkeypatch.setattr(main, "versions_of_peers", lambda: {"keras-hub": "0.32.0"})
    assert main.main([]) == 0 and ran[3:] == [["training_step", OF_PEERS[0]]]
    monkeypatch.setattr(main, "revision", lambda: "aaaaaaaaaa+changes")
    main.main([])
    main.main([])
    assert len(ran) == 8  # nobody knows which changes


def test_a_benchmark_that_fails_is_named_and_keeps_its_figures(bench, capsys):
    main, ran, folder, monkeypatch = bench
    assert main.main(["depth"]) == 0
    monkeypatch.setattr(main, "now", lambda: "2026-12-02T00:00:00+00:00 broken")
    assert main.main(["depth", "training_step"]) == 1
    assert "Failed: depth, training_step." in capsys.readouterr().err
    result = read_result(folder / "results" / "depth.jsonl")
    assert result.lines == DEPTH and result.run.date == RUN.date
    assert result.failed["reason"] == "`depth` ended with 1"
    assert "**The last attempt failed**" in (folder / "docs" / "benchmarks.md").read_text()
    monkeypatch.setattr(main, "now", lambda: RUN.date)
    assert main.main([]) == 0  # both once more: a failure is not kept
    assert read_result(folder / "results" / "depth.jsonl").failed is None


def test_mistakes_end_with_2(bench, capsys):
    main, ran, folder, _ = bench
    for arguments in (["dept"], ["--page", "depth"]):
        with pytest.raises(SystemExit, match="2"):
            main.main(arguments)
        assert " ".join(arguments) in capsys.readouterr().err
    (folder / "results").mkdir()
    (folder / "results" / "depth.jsonl").write_text("{")
    with pytest.raises(SystemExit, match="2"):
        main.main([])
    assert "depth.jsonl, line 1 is damaged" in capsys.readouterr().err and ran == []


def test_the_committed_page_is_that_of_the_committed_results():
    results = read_results(ROOT / "benchmarks" / "results", BENCHMARKS)
    if not results:
        pytest.skip("no results are committed: `make bench` makes them")
    page, charts = render(results)
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page
    assert all((ROOT / "docs" / "benchmarks" / name).exists() for name in charts)


def test_the_examples_of_the_tables_hold():
    assert doctest.testmod(tables).attempted > 0 == doctest.testmod(tables).failed


def test_what_the_benchmarks_import_of_each_other_is_there():
    # Those of the peers cannot be imported here, and a name that has moved ends an hour's run.
    checked = set()
    for file in (ROOT / "benchmarks").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module.startswith("benchmarks."):
                continue
            path = ROOT / node.module.replace(".", "/")
            names = {alias.name for alias in node.names}
            if path.is_dir():
                missing = {name for name in names if not (path / f"{name}.py").exists()}
            else:
                missing = names - defined_in(path.with_suffix(".py"))
            assert not missing, f"{file.name} takes {missing} from {node.module}"
            checked |= {(file.stem, name) for name in names}
    assert ("training_step_hugging_face", "PRODUCT") in checked


def defined_in(file):
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            stored = (one for one in ast.walk(node) if isinstance(one, ast.Name))
            names |= {one.id for one in stored if isinstance(one.ctx, ast.Store)}
    return names
