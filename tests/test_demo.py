"""The demo's corpus builder and baselines, on made-up sources. The demo itself is `make demo`."""

import json
import textwrap

import numpy as np
import pytest

from examples.demo.__main__ import commands, run, take_folder
from examples.demo.baselines import (
    library_predictions,
    order_answers,
    order_features,
)
from examples.demo.corpus import build_corpus, is_held_out, split_documents
from examples.demo.docstrings import Document, Source, read_source, sources_below
from examples.demo.library_task import make_examples, names_pattern, read_rows, without_names
from examples.demo.plots import confusion
from examples.demo.prose import paragraphs
from examples.demo.report import collect, make_plots, mean_over_seeds, results_table
from examples.demo.report import main as report


def source(name, library="shop"):
    return Source(library, f"shop/{name}.py", f"/nowhere/shop/{name}.py")


def named(held_out, library="shop"):
    """A source on the wanted side of the split."""
    numbers = range(1000)
    return next(
        s for s in (source(f"m{i}", library) for i in numbers) if is_held_out(s) == held_out
    )


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Return the mean of it.", ["Return the mean of it."]),
        ("One line that\n    goes on here.", ["One line that goes on here."]),
        ("Use it as shown here:\n\n>>> mean([1])\n1\n\nThat is all there is.",
         ["Use it as shown here", "That is all there is."]),
        ("Args:\n  size: The number of rows.\n    Zero is fine.\n  name: A name for the table.",
         ["The number of rows. Zero is fine.", "A name for the table."]),
        ("Parameters\n----------\nsize : int, optional\n    The number of rows.",
         ["The number of rows."]),
        (":param int size: The number of rows.\n:returns: A table of that size.",
         ["The number of rows.", "A table of that size."]),
        ("It does this and that::\n\n    this()\n    that()\n\nThen it is done.",
         ["It does this and that", "Then it is done."]),
        ("```python\nthis is code in words\n```\nAnd this is prose again.",
         ["And this is prose again."]),
        (".. note:: Mind the gap\n   between the rows.\n\n.. code:: c\n\n   these are no words",
         ["Mind the gap between the rows."]),
        ("See Also\n--------\nmedian : The middle of the values.", []),
        ("A `~shop.Table` or :class:`~shop.rows.Row`, see [1]_ and `docs <http://a.b>`_.",
         ["A shop.Table or Row, see and docs."]),
        ("- The first of the things.\n- The second of\n  the things.",
         ["The first of the things.", "The second of the things."]),
        ("x = y + z * 2 - 3 / 4", []),
        ("A NUL \0 is no part of it.\n\nNor is the half of a pair, \ud800, of it.", []),
        ("| a | table |\n|---|-------|\n| of | some cells |", []),
    ],
)  # fmt: skip
def test_prose_of_a_docstring_is_its_sentences(docstring, expected):
    assert paragraphs(docstring) == expected


def test_docstrings_are_read_in_file_order_and_nothing_is_run(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        textwrap.dedent('''
            """The module says a thing."""
            raise RuntimeError("imported")
            class Shop:
                """The class says a thing."""
                def open(self):
                    """The method says a thing."""
                    return """This is not a docstring."""
            if True:
                async def late():
                    """The function says a thing."""
        ''')
    )
    documents, characters = read_source(Source("shop", "module.py", str(file)))
    assert [document.paragraphs for document in documents] == [
        (f"The {part} says a thing.",) for part in ("module", "class", "method", "function")
    ]
    assert characters == sum(len(document.paragraphs[0]) for document in documents)


def test_a_file_that_does_not_parse_is_counted_not_read(tmp_path):
    file = tmp_path / "template.py"
    file.write_text('"""A template of a module."""\n{{ code }}\ndef\n')
    assert read_source(Source("shop", "template.py", str(file))) is None


def test_tests_and_vendored_copies_are_no_sources_and_the_kerases_are_one_library(tmp_path):
    files = ["keras/a.py", "tf_keras/a.py", "keras/tests/b.py", "pip/_vendor/c.py", "one.py"]
    for name in [*files, "keras/a_test.py", "tensorflow/python/keras/d.py", "keras/readme.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = sources_below(tmp_path, lambda package: package)
    assert sorted((s.library, s.path) for s in found) == [
        ("keras", "keras/a.py"),
        ("keras", "tf_keras/a.py"),
        ("one", "one.py"),
    ]


def test_the_split_is_by_file_and_takes_a_tenth():
    held_out = [is_held_out(source(f"module{i}")) for i in range(10_000)]
    assert 0.09 < np.mean(held_out) < 0.11
    old = Source("keras", "tf_keras/src/layers/dense.py", "")
    assert is_held_out(old) == is_held_out(Source("keras", "keras/src/layers/dense.py", ""))


def test_what_recurs_is_kept_once_and_no_held_out_paragraph_is_a_near_copy():
    train, held_out = named(False), named(True)
    text = "Return a new table that holds the rows of this one in sorted order."
    documents = [
        Document(train, (text, "Only the first of the tables has this paragraph.")),
        Document(train, (text.upper(), "Another paragraph about quite another thing.")),
        Document(held_out, (text.replace("a new", "the new"), "A paragraph of its own, all new.")),
    ]
    kept, tested, dropped = split_documents(documents)
    assert [document.paragraphs for document in kept] == [
        documents[0].paragraphs,
        documents[1].paragraphs[1:],
    ]
    assert [document.paragraphs for document in tested] == [documents[2].paragraphs[1:]]
    assert dropped == {"recurring": 1, "near copy of a training paragraph": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Converts a KerasTensor to np.ndarray.", "Converts a Tensor to ndarray."),
        ("NumPy's arrays, unlike those of `tf`.", "arrays, unlike those of ``."),
        ("Call tf.keras.Model or NP_ARRAY.", "Call Model or ARRAY."),
        ("The inputs, outputs and snippets stay.", "The inputs, outputs and snippets stay."),
    ],
)
def test_names_of_libraries_are_cut_out(text, expected):
    libraries = ("keras", "tensorflow", "numpy")
    names = names_pattern([Source(name, f"{name}/a.py", "") for name in libraries])
    assert without_names(text, names) == expected


def test_classes_are_the_libraries_with_enough_paragraphs():
    def documents(library, held_out, count):
        where = named(held_out, library)
        words = "it says a great many things about the work of the"
        return [Document(where, (f"{words} {library} in number {i}",)) for i in range(count)]

    train = documents("large", False, 2000) + documents("small", False, 499)
    train_examples, dev_examples = make_examples(train, documents("large", True, 400))
    assert {label for _, label in train_examples} == {"large"}
    assert (len(train_examples), len(dev_examples)) == (1500, 300)
    assert not any("large" in text for text, _ in train_examples)


def test_the_same_sources_give_the_same_corpus_whatever_the_processes(tmp_path):
    for i in range(60):
        file = tmp_path / "packages" / "shop" / f"m{i}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        name = chr(97 + i % 26) * 3 + chr(97 + i // 26)
        second = "" if i < 20 else f" A second sentence says more of {name}."
        file.write_text(f'"""This is what the module {name} does.{second}"""\n')
    sources = sorted(sources_below(tmp_path / "packages", lambda package: package))
    summary = build_corpus(sources, tmp_path / "one", processes=1)
    build_corpus(sources, tmp_path / "two", processes=2)
    paths = (tmp_path / "one").rglob("*.*")
    names = sorted(path.relative_to(tmp_path / "one").as_posix() for path in paths)
    assert names == [
        "dev.tsv", "heldout/shop.txt", "summary.json", "train.tsv", "train/shop.txt",
    ]  # fmt: skip
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert json.loads((tmp_path / "one" / "summary.json").read_text())["source_files"] == 60
    # A single sentence has no order to learn.
    assert summary["train"]["paragraphs"] + summary["heldout"]["paragraphs"] == 40
    assert list(summary["dropped_docstrings"].values()) == [20]
    assert read_rows(tmp_path / "one" / "train.tsv") == []  # no library has enough of them


def test_the_interval_is_that_of_the_paragraphs_where_seeds_agree():
    pytest.importorskip("scipy")
    gaps = np.array([1] * 10 + [0] * 90)  # 10 of 100 answers differ, all one way
    result = mean_over_seeds([gaps, gaps, gaps])
    assert result["mean"] == pytest.approx(0.1)
    assert result["of_seeds"] == pytest.approx([0.1] * 3)
    half = 1.96 * np.sqrt((0.1 - 0.1**2) / 99)
    assert result["interval"] == pytest.approx([0.1 - half, 0.1 + half], abs=1e-5)


def test_the_interval_is_that_of_the_seeds_where_paragraphs_agree():
    pytest.importorskip("scipy")
    result = mean_over_seeds([[0.1] * 50, [0.2] * 50, [0.6] * 50])
    assert result["of_seeds"] == pytest.approx([0.1, 0.2, 0.6])
    # 4.3027: Student's t of 2 degrees of freedom, from a printed table; variance 0.07 by hand.
    half = 4.3027 * np.sqrt(0.07 / 3)
    assert result["interval"] == pytest.approx([0.3 - half, 0.3 + half], abs=1e-4)


@pytest.mark.parametrize("spread", [0, 0.02, 0.1])
def test_the_interval_covers_the_truth_whatever_the_spread_of_seeds(spread):
    pytest.importorskip("scipy")
    rng = np.random.default_rng(0)
    covered, by_paragraphs, trials = 0, 0, 500
    for _ in range(trials):
        # How easy a paragraph is, how good a seed is: symmetric, so that the truth is 0.5.
        chance = rng.uniform(0.2, 0.8, 300) + rng.normal(0, spread, (3, 1))
        right = rng.random((3, 300)) < chance
        low, high = mean_over_seeds(right)["interval"]
        covered += low <= 0.5 <= high
        half = 1.96 * right.mean(axis=0).std() / np.sqrt(300)
        by_paragraphs += abs(right.mean() - 0.5) <= half
    assert covered / trials > 0.94
    if spread == 0.1:  # what an interval of the paragraphs alone comes to
        assert by_paragraphs / trials < 0.6


def write_run(folder, rng, texts=40):
    """A demo's folder as its steps leave it, as far as the report reads it, of made-up answers."""

    def write(name, content):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))

    def answers():
        rows = [f"{'ab'[i % 2]}\t{rng.choice(['a', 'b'])}\n" for i in range(texts)]
        return "label\tpredicted\n" + "".join(rows)

    score = {"accuracy": 0.6, "accuracy_interval": [0.5, 0.7], "examples": texts, "majority": 0.5}
    write("corpus/summary.json", {"train_examples": {"a": 1, "b": 1}})
    trained = {"mlm_loss": 4.5, "unigram_entropy": 6.0, "masked_tokens": 900, "sop_examples": 90}
    trained |= {"sop_accuracy": 0.7, "sop_accuracy_interval": [0.6, 0.8]}
    write("pretrained/evaluation.json", trained)
    recipe = {"total_steps": 2740, "mask_rate": 0.3}
    write("pretrained/run.json", {"settings": {"recipe": recipe}})
    write("pretrained/metrics.jsonl", json.dumps({"step": 9, "mlm_loss": 5, "sop_accuracy": 0.6}))
    write("baselines/order.json", score)
    write("baselines/library.json", score)
    write("baselines/library.tsv", answers())
    for seed in range(3):
        for start in ("finetuned", "from_scratch"):
            write(f"{start}_{seed}/predictions.tsv", answers())
            write(f"{start}_{seed}/metrics.jsonl", json.dumps({"step": 9, "loss": 1}))


def test_the_report_pairs_the_seeds_and_compares_their_means(tmp_path):
    pytest.importorskip("scipy")
    write_run(tmp_path, np.random.default_rng(0))

    def accuracy(file):
        rows = read_rows(tmp_path / file)
        return sum(row["label"] == row["predicted"] for row in rows) / len(rows)

    results = json.loads(json.dumps(collect(tmp_path)))
    tuned, scratch = (
        [accuracy(f"{start}_{seed}/predictions.tsv") for seed in range(3)]
        for start in ("finetuned", "from_scratch")
    )
    assert results["finetuned"]["of_seeds"] == pytest.approx(tuned)
    gains = np.subtract(tuned, scratch)
    assert results["gain_over_from_scratch"]["of_seeds"] == pytest.approx(gains)
    assert results["gain_over_from_scratch"]["mean"] == pytest.approx(gains.mean())
    gains = np.subtract(tuned, accuracy("baselines/library.tsv"))
    assert results["gain_over_bag_of_words"]["of_seeds"] == pytest.approx(gains)
    cells = [cell for column in results_table(results).columns for cell in column.cells]
    assert " ".join(f"{100 * gain:+.1f}" for gain in gains) in cells
    assert not any("token" in cell for cell in cells)


def test_the_report_draws_its_plots(tmp_path):
    pytest.importorskip("scipy")
    pytest.importorskip("matplotlib")
    write_run(tmp_path, np.random.default_rng(0))
    make_plots(tmp_path, collect(tmp_path), tmp_path)
    assert {file.name for file in tmp_path.glob("*.png")} == {
        "pretraining.png", "finetuning.png", "confusion.png",
    }  # fmt: skip


@pytest.mark.parametrize(("steps", "said"), [(2740, True), (4000, False)])
def test_a_short_pretraining_is_told_what_it_can_show(tmp_path, capsys, steps, said):
    pytest.importorskip("scipy")
    pytest.importorskip("matplotlib")
    write_run(tmp_path, np.random.default_rng(0))
    recipe = {"total_steps": steps, "mask_rate": 0.3}
    run_json = tmp_path / "pretrained" / "run.json"
    run_json.write_text(json.dumps({"settings": {"recipe": recipe}}))
    report([str(tmp_path)])
    assert (f"Pretraining made {steps:,} steps" in capsys.readouterr().out) == said


def test_each_seed_is_tuned_with_and_without_pretraining_and_the_first_is_exported(tmp_path):
    typed = [" ".join(map(str, command)) for command in commands(tmp_path, 1)]
    tuned = [command for command in typed if " finetune " in command]
    for seed in range(3):
        for start, scratch in (("finetuned", False), ("from_scratch", True)):
            (command,) = [c for c in tuned if f"--out {tmp_path / start}_{seed} " in c]
            assert f"--seed {seed}" in command and ("--from-scratch" in command) == scratch
    assert len(tuned) == 6
    (export,) = [command for command in typed if " export " in command]
    assert f"--model {tmp_path}/finetuned_0 " in export


def test_a_command_that_ends_in_an_ampersand_runs_beside_the_next(tmp_path, capfd):
    # Either waits for what the other one writes: one after the other, they would never end.
    code = (
        "import pathlib, sys, time; mine, other = map(pathlib.Path, sys.argv[1:]); mine.touch()\n"
        "end = time.monotonic() + 60\n"
        "while not other.exists(): assert time.monotonic() < end; time.sleep(0.01)\n"
        "print('saw', other.name)"
    )
    one, two = tmp_path / "one", tmp_path / "two"
    run([["python", "-c", code, one, two, "&"], ["python", "-c", code, two, one]])
    out = capfd.readouterr().out
    assert out.count("saw one") == out.count("saw two") == 1
    assert f"{two} &\n" in out and f"{one} &\n" not in out


def test_what_runs_beside_the_next_may_say_much(tmp_path, capfd):
    # More than a pipe holds, before the other one can end.
    much = f"print('x' * 300_000, flush=True); open({str(tmp_path / 'said')!r}, 'w')"
    waits = (
        f"import pathlib, time; file = pathlib.Path({str(tmp_path / 'said')!r})\n"
        "end = time.monotonic() + 60\n"
        "while not file.exists(): assert time.monotonic() < end; time.sleep(0.01)"
    )
    run([["python", "-c", much, "&"], ["python", "-c", waits]])
    assert "x" * 300_000 in capfd.readouterr().out


def test_the_first_failure_ends_the_demo_and_shows_what_was_said(tmp_path, capfd):
    fails = ["python", "-c", "import sys; sys.exit('no such luck')"]
    never = ["python", "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    sleeps = ["python", "-c", "import time; time.sleep(600)", "&"]
    for before in (
        [sleeps, fails],
        [[*fails, "&"], ["python", "-c", "0"]],
        [[*fails, "&"], sleeps[:-1]],  # does not wait for the other one
    ):
        with pytest.raises(SystemExit) as end:
            run([*before, never])
        assert end.value.code == 1
        assert "no such luck" in capfd.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_the_bag_of_words_finds_a_word_that_tells_the_class():
    pytest.importorskip("sklearn")
    texts = [f"{word} in row {i}" for i in range(50) for word in ("apples", "pears")]
    predicted = library_predictions(texts, ["a", "p"] * 50, ["some apples", "these pears"])
    assert predicted == ["a", "p"]


def test_order_features_tell_segments_and_neighbours_apart():
    pytest.importorskip("scipy")
    ids = np.array([[2, 7, 8, 3, 9, 3, 0], [2, 9, 3, 7, 8, 3, 0]])
    segments = np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 0]])
    features = order_features(ids, segments, vocab_size=20)
    assert features.sum(axis=1).ravel().tolist() == [[4, 4]]  # 7, 8, 9 and the neighbours 7 8
    single = features[:, :40].toarray()
    assert np.nonzero(single[0])[0].tolist() == [7, 8, 29]
    assert np.nonzero(single[1])[0].tolist() == [9, 27, 28]
    assert (features[0, 40:] != features[1, 40:]).sum() == 2


def test_the_order_baseline_learns_which_piece_comes_first():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400)
    first, last = 7, 8
    ids = np.zeros((400, 8), int)
    ids[:, [0, 2, 5]] = 2, 3, 3
    ids[:, 1] = np.where(labels == 1, first, last)
    ids[:, 3] = np.where(labels == 1, last, first)
    ids[:, 4] = rng.integers(10, 50, size=400)
    segments = np.array([[0, 0, 0, 1, 1, 1, 0, 0]] * 400)
    pairs = ids, segments, labels
    assert np.mean(order_answers(pairs, pairs, vocab_size=50)) > 0.95


def test_confusion_counts_true_libraries_in_rows():
    counts = confusion(["a", "a", "b"], ["a", "b", "b"], ["a", "b", "c"])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]


def test_a_folder_that_is_no_demo_is_left_alone(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="--out must be a new folder"):
        take_folder(tmp_path)
    assert (tmp_path / "corpus" / "mine.txt").exists()
    take_folder(tmp_path / "demo")
    (tmp_path / "demo" / "corpus").mkdir()
    take_folder(tmp_path / "demo")
    assert not (tmp_path / "demo" / "corpus").exists()
