"""Held-out rows with what is hidden in them, and what the model takes it for."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from albert_keras.model import pair_objective_of
from albert_keras.text.model_proto import MARKER
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.wordpiece_tokenizer import CONTINUES, WordpieceTokenizer

ROWS, GUESSES = 12, 5


@dataclasses.dataclass(frozen=True)
class Piece:
    """A piece.

    Attributes:
        name: as the vocabulary writes it.
        space: whether a space stands before it in a text.
        letters: what it is in a text, without that space.
    """

    name: str
    space: bool
    letters: str


@dataclasses.dataclass(frozen=True)
class HiddenPiece:
    """A masked piece and the model's answer.

    Attributes:
        truth: what was hidden.
        probability: that the model gives to it.
        rank: 1 where no piece has a higher probability.
        guesses: (piece, probability), the `GUESSES` most probable ones, the first first.
    """

    truth: Piece
    probability: float
    rank: int
    guesses: list[tuple[Piece, float]]

    @property
    def right(self) -> bool:
        return self.rank == 1


@dataclasses.dataclass(frozen=True)
class PairAnswer:
    """What the pair head says of the two segments.

    Attributes:
        objective: "sop" or "nsp".
        label: the column that is right.
        probabilities: of both columns.
    """

    objective: str
    label: int
    probabilities: tuple[float, float]

    @property
    def answer(self) -> int:
        return int(np.argmax(self.probabilities))

    @property
    def right(self) -> bool:
        return self.answer == self.label


@dataclasses.dataclass(frozen=True)
class MaskedExample:
    """A row: its one or two segments in pieces, hidden or not, and the answer for the pair."""

    segments: list[list[Piece | HiddenPiece]]
    pair: PairAnswer | None

    @property
    def hidden(self) -> list[HiddenPiece]:
        return [part for part in itertools.chain(*self.segments) if isinstance(part, HiddenPiece)]


def masked_examples(
    model: tf.keras.Model,
    tokenizer: Tokenizer,
    batches: Iterable[Mapping[str, tf.Tensor]],
    rows: int = ROWS,
) -> list[MaskedExample]:
    """Some rows of some batches with the model's guesses: of a batch those with a pair first.

    Args:
        model: of `build_pretrainer`.
        tokenizer: of the batches.
        batches: as of `pretraining_batches`; those of an evaluation, which show nothing of what
            they hide. Only as many are taken as it needs.
        rows: int > 0, at most. Default 12.

    Returns:
        As many as there are, at most `rows`; a row in which nothing is hidden is left out.
    """
    examples = []
    for batch in batches:
        batch = {name: np.asarray(values) for name, values in batch.items()}
        order = np.argsort(-batch["sop_weights"], kind="stable")
        chosen = order[batch["masked_weights"][order].any(axis=1)][: rows - len(examples)]
        if chosen.size:
            batch = {name: values[chosen] for name, values in batch.items()}
            # These rows alone: logits of a whole batch may be gigabytes.
            outputs = model({name: batch[name] for name in model.input}, training=False)
            for row in range(len(chosen)):
                examples.append(
                    _example(
                        {name: values[row] for name, values in batch.items()},
                        np.asarray(outputs["mlm_logits"][row], np.float64),
                        np.asarray(outputs["sop_logits"][row], np.float64),
                        pair_objective_of(model),
                        tokenizer,
                    )
                )
        if len(examples) == rows:
            break
    return examples


def _example(row, mlm_logits, sop_logits, objective, tokenizer):
    ids = row["token_ids"][row["padding_mask"] > 0]
    parts = [_piece(tokenizer, piece_id) for piece_id in ids]
    for slot in np.flatnonzero(row["masked_weights"]):
        position, truth = int(row["masked_positions"][slot]), int(row["masked_ids"][slot])
        parts[position] = _hidden(tokenizer, truth, _softmax(mlm_logits[slot]))
    segments = [
        [
            part
            for part, piece_id, of in zip(parts, ids, row["segment_ids"], strict=False)
            if of == segment and piece_id not in (tokenizer.cls_id, tokenizer.sep_id)
        ]
        for segment in (0, 1)
    ]
    pair = None
    if row["sop_weights"] and objective != "none":
        probabilities = tuple(_softmax(sop_logits).tolist())
        pair = PairAnswer(objective, int(row["sop_labels"]), probabilities)
    return MaskedExample([segment for segment in segments if segment], pair)


def _hidden(tokenizer, truth, probabilities):
    first = np.argsort(-probabilities, kind="stable")[:GUESSES].tolist()
    return HiddenPiece(
        truth=_piece(tokenizer, truth),
        probability=float(probabilities[truth]),
        rank=1 + int((probabilities > probabilities[truth]).sum()),
        guesses=[(_piece(tokenizer, guess), float(probabilities[guess])) for guess in first],
    )


def _softmax(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def _piece(tokenizer, piece_id):
    piece = tokenizer.piece(piece_id)
    if isinstance(tokenizer, WordpieceTokenizer):
        return Piece(piece, not piece.startswith(CONTINUES), piece.removeprefix(CONTINUES))
    return Piece(piece, piece.startswith(MARKER), piece.removeprefix(MARKER).replace(MARKER, " "))
