"""Guards: what the log of a run says when training goes wrong.

Each looks at the lines of metrics.jsonl, one after the other, and knows nothing else. So it can be
given those of any run, and knows after a resume what it knew before.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple


class Finding(NamedTuple):
    """What a guard found.

    Args:
        kind: one word for it.
        text: what happened, and the likely causes.
        healthy_step: the last step before it; None where there was none.
    """

    kind: str
    text: str
    healthy_step: int | None


class LossSpikes:
    """Finds an interval whose loss is far above those before it.

    Far: above their mean by more than 0.5 and by more than 5 standard deviations. Both are
    exponential averages over some twenty intervals, the deviation's of the differences between one
    interval and the next, so that the fall of the loss is no part of it. The first ten intervals
    are not judged. A spike is reported where it begins, and is no part of the averages; a level
    that lasts for ten intervals is the new one.

    Example:
        >>> guard = LossSpikes()
        >>> losses = [4.0, 4.1] * 10 + [7.0, 7.1, 4.0]
        >>> found = [guard.see(step, {"loss": loss}) for step, loss in enumerate(losses, 1)]
        >>> [(step, finding.healthy_step) for step, finding in enumerate(found, 1) if finding]
        [(21, 20)]
    """

    _SHARE, _JUDGED_FROM, _LASTS = 1 / 20, 10, 10
    _MARGIN, _DEVIATIONS = 0.5, 5

    def __init__(self):
        self._begin()

    def _begin(self):
        self._mean = self._variance = 0.0
        self._intervals = self._high = 0
        self._step = self._loss = None

    def see(self, step: int, metrics: Mapping[str, float]) -> Finding | None:
        """Takes the next line of the log, and says whether a spike begins with it."""
        # In pretraining that of masked pieces, which an interval without any pair has as well.
        loss = metrics.get("mlm_loss", metrics.get("loss"))
        if loss is None:  # every step of the interval was skipped
            return None
        margin = max(self._MARGIN, self._DEVIATIONS * math.sqrt(self._variance))
        if self._intervals >= self._JUDGED_FROM and loss > self._mean + margin:
            self._high += 1
            if self._high == 1:
                return Finding(
                    "loss_spike",
                    f"the loss rose to {loss:.2f} from {self._mean:.2f}. It may come back; if not, "
                    "a lower learning rate or a longer warm-up is likely to help.",
                    self._step,
                )
            if self._high < self._LASTS:
                return None
            self._begin()
        self._intervals, self._high, self._step = self._intervals + 1, 0, step
        share = max(self._SHARE, 1 / self._intervals)  # of the first ones, the plain averages
        self._mean += share * (loss - self._mean)
        if self._loss is not None:  # two draws differ by twice the variance of one
            self._variance += share * ((loss - self._loss) ** 2 / 2 - self._variance)
        self._loss = loss
        return None


class Plateau(NamedTuple):
    """The level of a metric that a model reaches without learning what it is to learn.

    Args:
        metric: its name in the logs; the lower the better.
        value: the level.
        warmup_steps: int >= 0, of the schedule; the model is not judged before.
        causes: a sentence for the message: what being there means, and the likely causes.
        scale: float > 0, what the margins of `Collapse` are multiples of. Default 1, for nats of a
            vocabulary.
    """

    metric: str
    value: float
    warmup_steps: int
    causes: str
    scale: float = 1.0


class Collapse:
    """Finds a run that stays at its plateau after the warm-up, or falls back to it.

    The run is there when the metric's mean over the last w / 2 steps is at or above the plateau
    less 0.05, and no more than 0.05 below that of the w / 2 steps before: it does not fall. These
    are multiples of the plateau's scale. Here w
    is the number of warm-up steps, at least 500, and w steps after the warm-up are waited for. It
    is reported once, and again only if the run has left, by 0.25, and comes back.

    Args:
        plateau: see `Plateau`.
    """

    _LEAST_STEPS = 500
    _MARGIN, _LEFT = 0.05, 0.25

    def __init__(self, plateau: Plateau):
        self._plateau = plateau
        patience = max(plateau.warmup_steps, self._LEAST_STEPS)
        self._window, self._judged_from = patience // 2, plateau.warmup_steps + patience
        self._totals = deque([(0, 0.0)])  # (steps so far, their sum), back to the window's begin
        self._means = deque()  # (step, mean over the window that ended there)
        self._step = 0
        self._healthy_step, self._reported = None, False

    def see(self, step: int, metrics: Mapping[str, float]) -> Finding | None:
        """Takes the next line of the log, and says whether the run is found to have collapsed."""
        steps, self._step = step - self._step, step
        name, level = self._plateau.metric, self._plateau.value
        if name not in metrics:
            return None
        count, total = self._totals[-1]
        self._totals.append((count + steps, total + steps * metrics[name]))
        while self._totals[1][0] <= count + steps - self._window:
            self._totals.popleft()
        (before, total_before), (count, total) = self._totals[0], self._totals[-1]
        seen, mean = count - before, (total - total_before) / (count - before)
        self._means.append((step, mean))
        while len(self._means) > 1 and self._means[1][0] <= step - self._window:
            self._means.popleft()
        margin, left = (share * self._plateau.scale for share in (self._MARGIN, self._LEFT))
        if metrics[name] < level - left:
            self._healthy_step = step
        if mean < level - left:
            self._reported = False
        if self._reported or seen < self._window or step < self._judged_from:
            return None
        if mean < max(level, self._means[0][1]) - margin:
            return None
        self._reported = True
        what = "has stayed" if self._healthy_step is None else "has come back to where it began,"
        return Finding(
            "collapse",
            f"`{name}` {what} at {mean:.2f}, averaged over {seen} steps, and {level:.2f} is "
            f"what is reached without learning. {self._plateau.causes}",
            self._healthy_step,
        )


class SkippedInARow:
    """Counts the steps in a row whose gradient was not finite.

    A call of several steps (`steps_per_execution`) counts when all of its steps were skipped.
    """

    def __init__(self):
        self.steps = 0

    def see(self, steps: int, skipped: int) -> int:
        """Takes the next call, of so many steps, and gives the number in a row.

        >>> guard = SkippedInARow()
        >>> [guard.see(4, skipped) for skipped in (1, 4, 4, 3, 4)]
        [0, 4, 8, 0, 4]
        """
        self.steps = self.steps + steps if skipped >= steps else 0
        return self.steps
