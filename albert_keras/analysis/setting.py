"""Setting: how a configuration is trained or asked, as far as that decides what it costs."""

import dataclasses

from albert_keras.recipes import MASK_RATE, prediction_slots

POLICIES = ("float32", "mixed_bfloat16")


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a configuration runs on one device.

    Args:
        batch: int > 0, B, rows of a step.
        length: int > 0, S, pieces of a row.
        policy: what layers compute in, "float32" or "mixed_bfloat16"; weights, gradients of weights
            and moments are float32 in both.
        recompute: layers keep their input alone for the gradient; see `build_albert`.

    Raises:
        ValueError: a size that is no int of at least 1, or an unknown policy.
    """

    batch: int = 32
    length: int = 128
    policy: str = "float32"
    recompute: bool = False

    def __post_init__(self):
        for name in ("batch", "length"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"`{name}` must be an int of at least 1. Received: {value!r}.")
        if self.policy not in POLICIES:
            raise ValueError(
                f"`policy` must be one of {', '.join(POLICIES)}. Received: {self.policy!r}."
            )

    @property
    def masked(self) -> int:
        """M, slots for masked positions in a row, at the paper's rate."""
        return prediction_slots(self.length, MASK_RATE)

    @property
    def pieces(self) -> int:
        """Pieces of a step, B S."""
        return self.batch * self.length
