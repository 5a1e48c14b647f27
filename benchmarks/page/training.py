"""Tables of what training costs: a step beside the peers, against length, batch and depth."""

import statistics

from benchmarks.page.tables import number, of_samples, percent, spread, table

CONTENDERS = {
    "training_step": "ours",
    "training_step_keras_hub": "keras-hub",
    "training_step_hugging_face": "Hugging Face, compiled",
}


def training_step(lines):
    """The ratio to a peer is of the medians of all steps; in brackets of each pair of processes."""
    found = {}  # shape, policy -> contender -> lines
    for line in lines:
        of_setting = found.setdefault((line["shape"], line["policy"]), {})
        of_setting.setdefault(CONTENDERS[line["benchmark"]], []).append(line)
    rows = []
    for (shape, policy), contenders in found.items():
        ours = contenders["ours"]
        for name, its_lines in contenders.items():
            its_ratios = [""] * 2
            if name != "ours":
                of_rounds = [
                    _median([one]) / _median([other])
                    for one, other in zip(ours, its_lines, strict=True)
                ]
                ratio = _median(ours) / _median(its_lines)
                memory = _memory(ours) / _memory(its_lines)
                its_ratios = [spread(ratio, min(of_rounds), max(of_rounds)), number(memory)]
            rows.append(
                [
                    f"{shape}, {policy.removeprefix('mixed_')}",
                    name,
                    of_samples([second for line in its_lines for second in line["seconds"]]),
                    number(statistics.median(line["tokens_per_second"] for line in its_lines)),
                    number(statistics.median(line["floor_fraction"] for line in its_lines)),
                    number(_memory(its_lines)),
                    *its_ratios,
                ]
            )
    heads = ["rows x length", "of", "seconds", "tokens/s", "share of the floor", "peak MB"]
    return table([*heads, "our time to theirs", "our memory to theirs"], rows)


def _median(lines):
    return statistics.median([second for line in lines for second in line["seconds"]])


def _memory(lines):
    return max(line["peak_mb"] for line in lines)


def scaling(lines):
    parts = []
    for name, of in (("length", "length"), ("batch", "rows"), ("depth", "layers")):
        series = {False: {}, True: {}}
        for line in lines:
            if name in line["varied"]:
                series[line["recompute"]][line[of]] = line
        one = next(iter(series[False].values()))
        fixed = {"layers": "layers", "rows": "rows", "length": "pieces a row"}
        of_all = " and ".join(f"{one[key]} {text}" for key, text in fixed.items() if key != of)
        values = sorted(series[False])
        rows = [
            [title, *(show(series[recompute][value]) for value in values)]
            for title, recompute, show in (
                ("seconds", False, lambda line: spread(*line["step_seconds"])),
                ("seconds, recomputed", True, lambda line: spread(*line["step_seconds"])),
                ("MB", False, lambda line: number(line["step_mb"])),
                ("MB, recomputed", True, lambda line: number(line["step_mb"])),
            )
        ]
        parts.append(f"With {of_all}:\n\n" + table([of, *map(str, values)], rows))
    return "\n\n".join(parts)


def depth(lines):
    series = {(line["layers"], line["recompute"]): line for line in lines}
    layers = sorted({line["layers"] for line in lines})

    def row(title, recompute, show, key):
        found = [series[value, recompute].get(key) for value in layers]
        return [title, *("" if value is None else show(value) for value in found)]

    rows = [
        row("memory of a step, MB", False, number, "step_mb"),
        row("memory, recomputed, MB", True, number, "step_mb"),
        row("a step, s", False, lambda values: spread(*values), "step_seconds"),
        row("a step, recomputed, s", True, lambda values: spread(*values), "step_seconds"),
        row("build, s", False, number, "build_seconds"),
        row("tracing and compiling, s", False, number, "first_step_seconds"),
        row("tracing and compiling, recomputed, s", True, number, "first_step_seconds"),
        row("parameters", False, "{:,}".format, "parameters"),
    ]
    return table(["layers", *map(str, layers)], rows)


def input_share(lines):
    rows = [
        [
            f"{line['preset']}, {line['shape']}",
            spread(*line["step_seconds_input_on"]),
            spread(*line["step_seconds_input_off"]),
            percent(line["difference"]),
            " to ".join(percent(value) for value in line["difference_of_rounds"][1:]),
        ]
        for line in lines
    ]
    heads = ["model, rows x length", "a step with the input, s", "without, s"]
    return table([*heads, "longer by", "round by round"], rows)


def finetuning_batches(lines):
    names = {
        "similar": "of similar length",
        "longest": "any rows, padded to their longest",
        "maximum": "padded to the maximum",
    }
    rows = []
    for line in lines:
        of = f"{line['preset']}, {line['layers']} layers, {line['batch']}x{line['length']}"
        for name, title in names.items():
            of_kind = line[name]
            rows.append(
                [
                    of,
                    title,
                    spread(*of_kind["examples_per_second"]),
                    spread(*of_kind["examples_per_processor_second"]),
                    spread(*of_kind["to_maximum"]),
                    percent(of_kind["pieces_of_positions"]),
                ]
            )
    heads = ["model", "batches", "examples/s", "examples a processor second"]
    return table([*heads, "times the last", "positions with a piece"], rows)
