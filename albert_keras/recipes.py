"""PretrainingRecipe: what a pretraining run does, and the named ones in RECIPES."""

import dataclasses
import math

PAPER_BATCH, PAPER_RATE = 4096, 1.76e-3
MASK_RATE = 0.15  # of the paper, and of every evaluation


@dataclasses.dataclass(frozen=True)
class PretrainingRecipe:
    """What a pretraining run does. The defaults are the paper's run.

    Args:
        sequence_length: int, S, special pieces included.
        batch_size: int, B, rows of a step on all devices together.
        total_steps: int > 0.
        optimizer: "lamb" or "adamw".
        learning_rate: float > 0, the schedule's peak.
        warmup_steps: int >= 0.
        decay: "from_start", the form of the original code, or "from_peak"; see
            `WarmupLinearDecay`.
        long_steps: int, so many of the last steps have rows of `long_length`. The paper trains on
            512 throughout; BERT's recipe is 90 % of the steps on 128, then 10 % on 512.
        long_length: int, S of those steps; None if there are none.
        micro_batches: int > 0, parts that a device computes its rows of a step in; see
            `with_pretraining_loss`.
        seed: int, of the initial weights, the order, the pairs and the masks.
        ngram: int, N, longest n-gram masked, in words.
        mask_rate: float in (0, 1], share of a row's tokens to mask.
        pair_objective: "sop", sentence order; "nsp", the next sentence; or "none".

    Raises:
        ValueError: long steps without a length, or not below the total; or a length that is not
            longer.

    Reference:
        ALBERT, sections 4.1 and 4.2 and appendix A.1, https://arxiv.org/abs/1909.11942
    """

    sequence_length: int = 512
    batch_size: int = PAPER_BATCH
    total_steps: int = 125_000
    optimizer: str = "lamb"
    learning_rate: float = PAPER_RATE
    warmup_steps: int = 3_125
    decay: str = "from_start"
    long_steps: int = 0
    long_length: int | None = None
    micro_batches: int = 1
    seed: int = 0
    ngram: int = 3
    mask_rate: float = MASK_RATE
    pair_objective: str = "sop"

    def __post_init__(self):
        if (self.long_length is None) != (self.long_steps == 0):
            raise ValueError(
                "`long_steps` and `long_length` belong together. Received: "
                f"{self.long_steps} and {self.long_length}."
            )
        if self.long_length is not None and self.long_length <= self.sequence_length:
            raise ValueError(
                "`long_length` must be above `sequence_length`. Received: "
                f"{self.long_length} and {self.sequence_length}."
            )
        if not 0 <= self.long_steps < max(self.total_steps, 1):
            raise ValueError(
                "`long_steps` must be below the steps in all. Received: "
                f"{self.long_steps} of {self.total_steps}."
            )

    @property
    def longest(self) -> int:
        """The longest row of the run."""
        return max(self.sequence_length, self.long_length or 0)

    def phases(self) -> list[tuple[int, int]]:
        """(sequence length, step at which it ends) of each part of the run.

        >>> PretrainingRecipe(sequence_length=128, long_length=512, long_steps=12_500).phases()
        [(128, 112500), (512, 125000)]
        """
        if self.long_length is None:
            return [(self.sequence_length, self.total_steps)]
        short = self.total_steps - self.long_steps
        return [(self.sequence_length, short), (self.long_length, self.total_steps)]


# What they are without the size of the model, which is a preset's.
RECIPES: dict[str, PretrainingRecipe] = {
    "paper": PretrainingRecipe(),
    # For one GPU or a CPU and the preset "small": many small steps, and twice the masks, from which
    # a run of minutes learns sooner. LAMB is for large batches.
    "small-budget": PretrainingRecipe(
        sequence_length=64,
        batch_size=32,
        total_steps=40_000,
        optimizer="adamw",
        learning_rate=2e-3,
        warmup_steps=2_400,
        mask_rate=0.3,
    ),
}


def prediction_slots(length: int, rate: float) -> int:
    """Masked positions of a full row of `length` tokens: 19 of 128 and 77 of 512 at 15 %."""
    return max(1, round(rate * length))


def scaled_rate(batch_size: int) -> float:
    """The paper's rate for another batch of LAMB, by the square root of the batch.

    At a batch of 512 the paper's own rate makes large models diverge; LAMB's authors scale it so.

    >>> scaled_rate(4096), scaled_rate(1024)
    (0.00176, 0.00088)

    Reference:
        Large Batch Optimization for Deep Learning, section 4, https://arxiv.org/abs/1904.00962
    """
    return PAPER_RATE * math.sqrt(batch_size / PAPER_BATCH)
