"""Tables of what an answer costs: from raw strings beside the peers, and in formats for devices."""

from benchmarks.page.tables import number, percent, spread, table

QUESTIONS = {"short": ("ten words", "ms"), "batch": ("32 texts", "s")}


def serving(lines):
    contenders = [line for line in lines if line["benchmark"] == "serving"]
    ratios = [line for line in lines if line["benchmark"] == "serving_ratios"]
    parts = []
    for question, (title, unit) in QUESTIONS.items():
        prefix = f"{question}_{unit}"
        rows = [
            [
                line["contender"],
                number(line[f"{prefix}_p50"]),
                number(line[f"{prefix}_p99"]),
                " to ".join(number(value) for value in line[f"{prefix}_of_rounds"]),
                number(line[f"{question}_tokenizing"]),
                str(line[f"{question}_samples"]),
            ]
            for line in contenders
        ]
        heads = [f"{title}, {unit}", "median", "99th percentile", "medians of the rounds"]
        part = table([*heads, "share of tokenizing", "samples"], rows)
        for ratio in ratios:
            best = ratio[f"{question}_best_peer"]
            ours = ", ".join(
                f"{key.removeprefix(f'{question}_')} {number(value)}"
                for key, value in ratio.items()
                if key.startswith(f"{question}_") and key != f"{question}_best_peer"
            )
            part += f"\n\nTimes the median of the best peer, {best}: {ours}."
        parts.append(part)
    return "\n\n".join(parts)


def edge(lines):
    shapes = [key.removeprefix("ms_") for key in lines[0] if key.startswith("ms_")]
    rows = []
    for line in lines:
        of_file = [""] * 4
        if "bytes" in line:
            of_file = [
                number(line["bytes"] / 1e6),
                number(line["of_parameters"]),
                number(max(line["largest_difference"].values())),
                percent(line["equal_labels"]),
            ]
        times = [spread(*line[f"ms_{shape}"]) for shape in shapes]
        rows.append([line["format"], *of_file, *times])
    heads = ["format", "MB", "times the parameters", "largest difference", "equal labels"]
    return table([*heads, *(f"{shape}, ms" for shape in shapes)], rows)
