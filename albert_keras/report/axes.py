"""The axes of a plot that is a file of its own, by matplotlib (extra `plots`)."""

from typing import Any

BLUE, ORANGE, GREY = "#2864a8", "#d9730d", "#8a8f98"


def import_matplotlib() -> Any:
    """matplotlib. Raises ImportError where it is missing, which is better said before the work."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise ImportError(
            f"Plots need matplotlib ({error}). Install it: pip install matplotlib, or this library "
            "with its extra `plots`."
        ) from error
    return matplotlib


def new_axes(columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure, which `savefig` writes, and its axes side by side.

    It is nobody's current figure, so nothing has to close it, and it needs no display.

    Args:
        columns: int > 0, the number of axes.
        width, height: of the figure, in inches.
    """
    figure = import_matplotlib().figure.Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    return figure, axes
