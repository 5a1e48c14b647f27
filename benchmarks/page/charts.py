"""The plot of time and memory against length, batch and depth."""

import io

COLORS = {False: "#0067a8", True: "#b84a00"}  # which all kinds of colour vision tell apart
LABELS = {False: "as it is", True: "recomputed"}
SERIES = {
    "length": ("length", "pieces a row"),
    "batch": ("rows", "rows"),
    "depth": ("layers", "layers"),
}


def scaling_chart(lines) -> bytes:
    """SVG of two rows, seconds and MB of a step, and a column a series of `benchmarks.scaling`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError(
            "The plots need matplotlib. Install it: pip install '.[plots]'"
        ) from error
    # Text stays text, and the same lines give the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "albert_keras"}):
        figure = Figure(figsize=(9, 5), layout="constrained")
        panels = figure.subplots(2, len(SERIES), sharex="col")
        for series, axes in zip(SERIES, panels.T, strict=True):
            _draw(axes, series, lines)
        handles = panels[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper right", ncols=2)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _draw(axes, series, lines):
    key, title = SERIES[series]
    seconds, megabytes = axes
    for recompute, color in COLORS.items():
        chosen = [x for x in lines if series in x["varied"] and x["recompute"] == recompute]
        chosen.sort(key=lambda line: line[key])
        places = [line[key] for line in chosen]
        middle, low, high = zip(*(line["step_seconds"] for line in chosen), strict=True)
        style = {"color": color, "marker": "o", "markersize": 4, "label": LABELS[recompute]}
        kind = f"{series}-{'recomputed' if recompute else 'plain'}"
        seconds.plot(places, middle, gid=f"seconds-{kind}", **style)
        seconds.fill_between(places, low, high, color=color, alpha=0.25, linewidth=0)
        megabytes.plot(places, [x["step_mb"] for x in chosen], gid=f"megabytes-{kind}", **style)
    for axis, name in ((seconds, "seconds a step"), (megabytes, "MB a step")):
        axis.set_ylim(bottom=0)
        axis.set_ylabel(name if series == "length" else "")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    megabytes.set_xlim(left=0)
    megabytes.set_xlabel(title)
