"""check_accuracy: what 8 or 16 bits change in a model's answers, and the limits of that."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from ..serving import TEXTS, pieces, row_alone
from .model_function import Run

# Beside the texts of a served model's self-check: what labels are given to, in several languages.
_MORE = (
    "The film is a joy from its first scene to its last.",
    "I would not eat there again, and the waiter knew it.",
    "Who wrote the letter that lay on the table all week?",
    "They measured the bridge twice, wrote down 1,204 metres and went home.",
    "Prices rose by 3.5 % in May; nobody had expected that.",
    "A man is playing a guitar on the roof of a red house.",
    "Two dogs run through the snow, and a child looks on.",
    "Please send me the report by Friday, or call me instead.",
    "La lettre est restée sur la table toute la semaine.",
    "El perro duerme al sol y el gato lo mira desde la ventana.",
    "Il treno per Roma parte alle 9:40 dal binario 12.",
    "Os livros estavam molhados, mas ainda se podiam ler.",
    "Kirje oli pöydällä koko viikon.",
    "Η επιστολή έμεινε στο τραπέζι όλη την εβδομάδα.",
    "היא קראה את הספר בלילה אחד.",
    "จดหมายวางอยู่บนโต๊ะตลอดทั้งสัปดาห์",
    "편지는 일주일 내내 탁자 위에 있었다.",
)
CHOICES = 3
# Rows that are run in one batch as well are at most this long: a batch is as wide as its longest.
_SHORT = 64
# Further from 0 than this is what a model puts in the place of minus infinity.
_MASKED = 1e3
# Two scores nearer than this, as a fraction of the largest in the batch, may change places.
CLEAR = 0.05
_SCORES = ("logits", "start_logits", "end_logits")


def check_accuracy(
    model: tf.keras.Model,
    run: Run,
    batches: Sequence[Mapping[str, np.ndarray]],
    tolerance: float,
    agreement: float,
) -> dict:
    """Runs a converted model and compares it with the Keras model.

    Args:
        model: the original.
        run: the converted one.
        batches: of `check_batches`, of different sizes and lengths.
        tolerance: the largest difference of an output, as a fraction of its largest value.
        agreement: the least fraction of equal labels, where the Keras model's is ahead by `CLEAR`.

    Returns:
        What was found, for `metadata.json`.

    Raises:
        RuntimeError: the converted model differs by more, lacks an output or cannot be run.
    """
    wanted, found = [], []
    for batch in batches:
        shape = batch["token_ids"].shape
        with tf.device("/CPU:0"):
            outputs = model(dict(batch), training=False)
            wanted.append({name: value.numpy() for name, value in outputs.items()})
        try:
            found.append(run(batch))
        except Exception as error:  # any: each runtime has errors of its own
            raise RuntimeError(f"It cannot run a batch of {shape}: {error}") from error
        got, expected = _shapes(found[-1]), _shapes(wanted[-1])
        if got != expected:
            raise RuntimeError(f"A batch of {shape} gives {got}, and the Keras model {expected}.")
    differences = {
        name: difference
        for name in wanted[0]
        if (difference := _difference(name, wanted, found)) is not None
    }
    all_labels, clear_labels = _agreement(wanted, found)
    problems = [
        f"`{name}` differs by {difference:.3g} of its largest value, and {tolerance} is the limit."
        for name, difference in differences.items()
        if not difference <= tolerance  # NaN as well
    ]
    if clear_labels < agreement:
        problems.append(
            f"Of the labels that are clear {clear_labels:.3f} are the Keras model's, and "
            f"{agreement} is the limit."
        )
    if problems:
        raise RuntimeError("\n".join(problems))
    return {
        "batches": len(batches),
        "largest_difference": {name: round(value, 6) for name, value in differences.items()},
        "tolerance": tolerance,
        "equal_labels": None if all_labels is None else round(all_labels, 4),
        "equal_clear_labels": round(clear_labels, 4),
        "least_equal_clear_labels": agreement,
    }


def check_batches(
    model: tf.keras.Model, tokenizer, max_length: int, pair: bool
) -> list[dict[str, np.ndarray]]:
    """Built-in texts in the languages of many, as inputs of `model`: each alone, one of them as
    long as a row can be, and the short ones together.

    Args:
        model: with the encoder's inputs, `(B, S)` or of multiple choice `(B, C, S)`.
        tokenizer: the model's.
        max_length: int, the longest row.
        pair: whether a row is two texts.
    """
    texts = [*TEXTS, *(text.encode() for text in _MORE)]
    ids = [pieces(tokenizer, text) for text in texts]
    seconds = [*ids[7:], *ids[:7]] if pair else [None] * len(ids)
    rows = [
        row_alone(first, second, tokenizer, max_length)
        for first, second in zip(ids, seconds, strict=True)
    ]
    if len(model.input["token_ids"].shape) == 3:
        whole = len(rows) // CHOICES * CHOICES
        rows = [_together(rows[place : place + CHOICES]) for place in range(0, whole, CHOICES)]
        rows = [{name: value[np.newaxis] for name, value in row.items()} for row in rows]
    short = [row for row in rows if row["token_ids"].shape[-1] <= _SHORT]
    return [*(_together([row]) for row in rows), _together(short)]


def _together(rows):
    """Rows as one batch; its width is a multiple of 8, as the head of SQuAD 2.0 needs 5."""
    width = max(row["token_ids"].shape[-1] for row in rows)
    width = -(-width // 8) * 8

    def padded(value):
        return np.pad(value, [*[(0, 0)] * (value.ndim - 1), (0, width - value.shape[-1])])

    return {name: np.concatenate([padded(row[name]) for row in rows]) for name in rows[0]}


def _shapes(outputs):
    return {name: outputs[name].shape for name in sorted(outputs)}


def _difference(name, wanted, found) -> float | None:
    """The largest difference of an output as a fraction of its largest value."""
    largest, difference = 0.0, 0.0
    for want, got in zip(wanted, found, strict=True):
        a, b = want[name], got[name]
        if a.dtype.kind != "f":
            return None  # a label
        here = np.ones(a.shape, bool)
        if name == "end_log_probs":  # of another start they are other numbers
            here &= (want["start_positions"] == got["start_positions"])[..., np.newaxis]
        if np.any((np.abs(a) < _MASKED)[here] != (np.abs(b) < _MASKED)[here]):
            return np.inf
        here &= np.abs(a) < _MASKED
        largest = max(largest, np.max(np.abs(a[here]), initial=0.0))
        difference = max(difference, np.max(np.abs(a - b)[here], initial=0.0))
    return float(difference / largest) if largest else float(difference)


def _agreement(wanted, found) -> tuple[float | None, float]:
    """The fraction of equal labels, None where there are none, and of those that are clear."""
    equal, clear = [], []
    for want, got in zip(wanted, found, strict=True):
        for same, margin in _labels(want, got):
            equal.append(same.reshape(-1))
            clear.append(margin.reshape(-1))
    if not equal:
        return None, 1.0
    equal, clear = np.concatenate(equal), np.concatenate(clear) > CLEAR
    return float(equal.mean()), float(equal[clear].mean()) if clear.any() else 1.0


def _labels(want, got) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Whether labels are equal, and by how much the Keras model's is ahead of its next one."""
    for name in _SCORES:
        if name in want and want[name].shape[-1] > 1:
            scores = np.sort(want[name], axis=-1)
            yield want[name].argmax(-1) == got[name].argmax(-1), _ahead(scores[..., ::-1])
    if "start_positions" in want:
        starts = want["start_positions"][:, 0] == got["start_positions"][:, 0]
        yield starts, _ahead(want["start_log_probs"])
        ends = want["end_positions"][:, 0, 0] == got["end_positions"][:, 0, 0]
        yield ends[starts], _ahead(want["end_log_probs"][:, 0])[starts]


def _ahead(falling):
    largest = np.max(np.abs(falling[np.abs(falling) < _MASKED]), initial=1e-9)
    falling = np.maximum(falling, -_MASKED)
    return (falling[..., 0] - falling[..., 1]) / largest
