"""TrainingProgress: how far a run is, how fast, and how long it still takes."""

from collections.abc import Mapping
from contextlib import suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# Shown beside the bar, in this order, as far as the run has them.
_SHOWN = (
    *("loss", "mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy", "nsp_loss", "nsp_accuracy"),
    "accuracy",
)


class TrainingProgress:
    """A bar on a terminal; elsewhere, such as in a log file, one line for every interval.

    Args:
        total_steps: int > 0.
        start: int, the step that the run goes on from.
        tokens_per_step: int > 0.
        quiet: show nothing. Default False.
    """

    def __init__(self, total_steps: int, start: int, tokens_per_step: int, quiet: bool = False):
        self._total_steps = total_steps
        self._console = Console(stderr=True, quiet=quiet)
        self._bar = Progress(
            MofNCompleteColumn(),
            BarColumn(bar_width=30),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[numbers]}"),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total_steps, completed=start, numbers="")

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *error):
        self._bar.stop()

    def advance(self, step: int, metrics: Mapping[str, float] | None = None) -> None:
        """Shows that `step` is done, with its interval's metrics where one ends."""
        if metrics is None:
            self._bar.update(self._task, completed=step)
            return
        speed = f"{metrics['tokens_per_second']:,.0f} tokens/s"
        numbers = [f"{name} {metrics[name]:.3f}" for name in _SHOWN if name in metrics]
        if metrics.get("skipped_steps"):
            numbers.append(f"skipped {metrics['skipped_steps']} steps")
        self._bar.update(self._task, completed=step, numbers="  ".join([speed, *numbers]))
        if not self._console.is_terminal:
            self._print("  ".join([f"step {step}/{self._total_steps}", *numbers, speed]))

    def say(self, message: str) -> None:
        """Shows a message, above the bar on a terminal."""
        self._print(message, style="yellow")

    def _print(self, line, style=None):
        # On a full disk a log file takes no line, and training goes on.
        with suppress(OSError):
            self._console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
