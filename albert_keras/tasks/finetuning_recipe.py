"""FinetuningRecipe: what a fine-tuning run does, and the published ones in RECIPES."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class FinetuningRecipe:
    """What a fine-tuning run does.

    Args:
        max_length: int, the longest row in pieces, special ones included.
        batch_size: int > 0, B, examples of a step on all devices together.
        learning_rate: float > 0, the schedule's peak.
        warmup: float >= 0, steps of warm-up, or below 1 a share of all steps.
        total_steps: int > 0, or None where `epochs` are given.
        epochs: float > 0, times that all examples are seen, or None where `total_steps` are given.
        dropout: float in [0, 1), ALBERT's own, on hidden values and on attention.
        classifier_dropout: float in [0, 1), on the input of the task's head.
        optimizer: "adamw" or "lamb".
        clip_norm: float > 0, the global norm that gradients are clipped to.
        seed: int, of the head's initial weights, the order and the dropout.
        checkpoint_every: int > 0, steps between two checkpoints, of which the best is kept; or
            None: the last one is.

    Raises:
        ValueError: neither or both of `total_steps` and `epochs`, or a warm-up that is negative or
            longer than the run.

    Example:

    >>> FinetuningRecipe(batch_size=48, epochs=3, warmup=0.1).steps(examples=87_599)
    (5474, 547)
    """

    max_length: int = 128
    batch_size: int = 32
    learning_rate: float = 3e-5
    warmup: float = 0.1
    total_steps: int | None = None
    epochs: float | None = None
    dropout: float = 0.0
    classifier_dropout: float = 0.1
    optimizer: str = "adamw"
    clip_norm: float = 1.0
    seed: int = 0
    checkpoint_every: int | None = 100

    def __post_init__(self):
        if (self.total_steps is None) == (self.epochs is None):
            raise ValueError(
                "A recipe has either `total_steps` or `epochs`. Received: "
                f"{self.total_steps} and {self.epochs}."
            )
        if not 0 <= self.warmup < math.inf or self.warmup > (self.total_steps or math.inf):
            raise ValueError(
                "`warmup` must be a number of steps of the run, or below 1 a share of them. "
                f"Received: {self.warmup}, and {self.total_steps} as `total_steps`."
            )

    def steps(self, examples: int) -> tuple[int, int]:
        """The steps in all and those of warm-up, for so many examples of training.

        Epochs are rounded down to steps. Of SQuAD it is questions that are counted, not the windows
        that long passages are cut into. So 2 epochs of version 1.1 and 3 of 2.0 are the steps of
        the paper.
        """
        total = self.total_steps
        if total is None:
            total = max(1, int(self.epochs * examples / self.batch_size))
        return total, round(self.warmup * total if self.warmup < 1 else self.warmup)

    def resolved(self, examples: int) -> "FinetuningRecipe":
        """The same in steps, for so many examples.

        >>> FinetuningRecipe(batch_size=48, epochs=3, warmup=0.1).resolved(87_599).total_steps
        5474
        """
        total_steps, warmup_steps = self.steps(examples)
        return dataclasses.replace(self, total_steps=total_steps, warmup=warmup_steps, epochs=None)


# Tasks that the paper starts from a checkpoint fine-tuned on MNLI, not from the pretrained one.
FROM_MNLI = ("rte", "sts-b", "mrpc")


def _paper(learning_rate, batch_size, dropout, total_steps, warmup, max_length=512, **more):
    """A row of Table 14; the dropout of the classifier is 0.1 in all of them."""
    return FinetuningRecipe(
        max_length=max_length,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup=warmup,
        total_steps=total_steps,
        dropout=dropout,
        **more,
    )


# The original's AdamW has no bias correction, ours has one: without, the first steps are several
# times as long, and fine-tuning fails more often (Mosbach et al. 2021, arxiv.org/abs/2006.04884).
# The classifier dropout of SQuAD 1.1 is that of the table; the original code has none there.
# The paper's are from ALBERT, Table 14, https://arxiv.org/abs/1909.11942. Steps between checkpoints
# are those of the original code, of its run_glue.sh or its flags.
RECIPES: dict[str, FinetuningRecipe] = {
    "cola": _paper(1e-5, 16, 0.0, 5336, 320),
    "sts-b": _paper(2e-5, 16, 0.0, 3598, 214),
    "sst-2": _paper(1e-5, 32, 0.0, 20935, 1256),
    "mnli": _paper(3e-5, 128, 0.0, 10000, 1000),
    "qnli": _paper(1e-5, 32, 0.0, 33112, 1986, checkpoint_every=200),
    "qqp": _paper(5e-5, 128, 0.1, 14000, 1000),
    "rte": _paper(3e-5, 32, 0.1, 800, 200),
    "mrpc": _paper(2e-5, 32, 0.0, 800, 200),
    "wnli": _paper(2e-5, 16, 0.1, 2000, 250),
    "squad1-paper": _paper(5e-5, 48, 0.0, 3649, 365, max_length=384, checkpoint_every=1000),
    "squad2-paper": _paper(3e-5, 48, 0.0, 8144, 814, checkpoint_every=1000),
    "race": _paper(2e-5, 32, 0.1, 12000, 1000),
    # The second version of the released models diverges with the row above, says their README.
    "race-v2": _paper(1e-5, 32, 0.0, 12000, 1000),
}

# Reached Google's own scores, and mostly passed them, with all four models of the second version:
# https://github.com/dmlc/gluon-nlp/tree/master/scripts/question_answering
_SQUAD = FinetuningRecipe(
    max_length=512,
    batch_size=48,
    learning_rate=2e-5,
    warmup=0.1,
    epochs=3,
    clip_norm=0.1,
    checkpoint_every=1000,
)
RECIPES["squad1"] = RECIPES["squad2"] = _SQUAD
