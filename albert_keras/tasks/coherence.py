"""CoherenceScorer: how sure a model of sentence order is of the order of a document."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.data.chunks import ChunkFormat, document_key, pack_document
from albert_keras.data.packer import blocks_of
from albert_keras.layers.sop_head import SOP_IN_ORDER
from albert_keras.model import ENCODER_INPUTS, pair_objective_of
from albert_keras.tasks.encoded_rows import EncodedRows, ranges
from albert_keras.tasks.length_batches import Predictor
from albert_keras.tasks.pretraining import refuse_misfit
from albert_keras.text.packing import assemble_rows
from albert_keras.text.tokenizer import Tokenizer


class ScoredDocument(NamedTuple):
    """A document and what the model says of each two consecutive segments of it.

    Attributes:
        sentences: of the document.
        segments: the sentence at which each segment begins, and the number of sentences; empty of
            a document without tokens.
        in_order: float `(segments - 1,)`, the probability that the two stand in order, asked as
            they stand; NaN where they do not fit into a row together.
        swapped: the same probability, asked with the two swapped.
    """

    sentences: list[str]
    segments: list[int]
    in_order: np.ndarray
    swapped: np.ndarray

    @property
    def coherence(self) -> float | None:
        """Mean over the pairs of (in_order + 1 - swapped) / 2; None without a pair.

        A model that cannot tell gives 0.5, whatever it takes for likelier as such.
        """
        scores = (self.in_order + 1 - self.swapped) / 2
        scores = scores[~np.isnan(scores)]
        return float(scores.mean()) if len(scores) else None


class CoherenceScorer:
    """Asks a model of sentence order about consecutive segments of documents.

    The segments are those of pretraining: a document is packed into chunks of whole sentences, as
    `write_records` does it (without short ones), and each is cut at the sentence nearest to its
    middle. Each two segments in a row that fit into a model's row together are a pair, also of two
    chunks; no pair begins or ends inside a sentence. Each is asked about in both orders.

        sentences of 3 5 4 4 9 tokens, rows of 19, key even
        chunks      3 5 4 4 | 9
        segments    3 5 | 4 4 | 9          the sentences 0 2 4 5
        pairs       [CLS] 3 5 [SEP] 4 4 [SEP], and swapped; 4 4 and 9 are too long together

    Args:
        pretrainer: a model of `build_pretrainer`, trained on sentence order.
        tokenizer: of the model.
        max_length: int, the longest row, special pieces included; that of its training.
        batch_size: int > 0, pairs that are computed at once. Default 64.

    Raises:
        ValueError: the model was not trained on sentence order, or tokenizer and model do not fit.

    Example:
        >>> model, tokenizer = load_albert("pretrained/model")
        >>> score = CoherenceScorer(model, tokenizer, max_length=128)
        >>> [document.coherence for document in score(read_documents(["books/"]))]

    Reference:
        ALBERT, section 3.1, "Inter-sentence coherence loss", https://arxiv.org/abs/1909.11942
    """

    def __init__(
        self,
        pretrainer: tf.keras.Model,
        tokenizer: Tokenizer,
        *,
        max_length: int,
        batch_size: int = 64,
    ):
        objective = pair_objective_of(pretrainer)
        if objective != "sop":
            raise ValueError(
                "Coherence is scored by a model that was trained on sentence order, the objective "
                f"sop. Received: a model that was trained with the objective {objective}."
            )
        refuse_misfit(pretrainer, tokenizer)
        self._tokenizer = tokenizer
        self._layout = ChunkFormat(max_length, short_fraction=0.0)
        logits = tf.keras.Model(
            {name: pretrainer.input[name] for name in ENCODER_INPUTS},
            {"sop": pretrainer.output["sop_logits"]},
        )
        self._predictor = Predictor(logits, batch_size=batch_size, max_length=max_length)

    def __call__(self, documents: Iterable[list[str]]) -> Iterator[ScoredDocument]:
        """Yields each document with its scores, in their order; one block is in memory at a time.

        Args:
            documents: lists of sentences, as of `read_documents`.
        """
        for block in blocks_of(documents):
            yield from self._scored(block)

    def _scored(self, documents):
        ids, splits = self._tokenizer.encode_lines([line for one in documents for line in one])
        places = np.cumsum([0, *map(len, documents)])
        bounds = [splits[first : last + 1] for first, last in pairwise(places)]
        segments = [
            segments_of(sentences, tokens, self._layout)
            for sentences, tokens in zip(documents, bounds, strict=True)
        ]
        # Token offsets at which each segment begins, and the last one ends.
        offsets = [tokens[cuts] for tokens, cuts in zip(bounds, segments, strict=True)]
        triples = np.array(
            [(one[i], one[i + 1], one[i + 2]) for one in offsets for i in range(len(one) - 2)],
            np.int64,
        ).reshape(-1, 3)
        fits = triples[:, 2] - triples[:, 0] <= self._layout.max_tokens
        in_order, swapped = np.full([2, len(fits)], np.nan)
        in_order[fits], swapped[fits] = self._asked(ids, triples[fits])
        pairs = np.cumsum([0, *(max(len(cuts) - 2, 0) for cuts in segments)])
        for sentences, cuts, (first, last) in zip(
            documents, segments, pairwise(pairs), strict=True
        ):
            yield ScoredDocument(sentences, cuts, in_order[first:last], swapped[first:last])

    def _asked(self, ids, triples):
        """(2, n): the probability of the original order for A, B and for B, A."""
        if not len(triples):
            return np.zeros([2, 0])
        first, second = (_ragged(ids, triples[:, i : i + 2]) for i in (0, 1))
        special = {"cls_id": self._tokenizer.cls_id, "sep_id": self._tokenizer.sep_id}
        probabilities = []
        for pair in ((first, second), (second, first)):
            rows = EncodedRows.of(assemble_rows(*pair, **special), self._tokenizer.vocab_size, {})
            logits = np.array([answer["sop"] for answer in self._predictor(rows)], np.float64)
            other = logits[:, 1 - SOP_IN_ORDER] - logits[:, SOP_IN_ORDER]
            probabilities.append(1 / (1 + np.exp(other)))
        return probabilities


def segments_of(sentences: Sequence[str], bounds: np.ndarray, layout: ChunkFormat) -> list[int]:
    """The sentences at which segments begin, and the number of sentences; empty without tokens.

    Args:
        sentences: of a document.
        bounds: ascending, n + 1 token offsets for n sentences; those of a sentence without tokens
            coincide, and it belongs to what stands before it, if there is any.
        layout: of the chunks.

    Example:

    >>> segments_of(["a", "b", "c", "d"], np.array([0, 3, 8, 12, 16]), ChunkFormat(19, 0.0))
    [0, 2, 4]
    """
    with_tokens = np.flatnonzero(np.diff(bounds))
    if not len(with_tokens):
        return []
    starts = [*bounds[with_tokens].tolist(), int(bounds[-1])]
    sentence_at = dict(zip(starts, with_tokens.tolist(), strict=False))
    sentence_at[starts[0]] = 0
    cuts = set()
    for chunk in pack_document(starts, document_key("\n".join(sentences).encode()), layout):
        if chunk.start in sentence_at:  # else it is inside a sentence that is longer than a chunk
            cuts.add(sentence_at[chunk.start])
        inner = [chunk.start + start for start in chunk.sentence_starts[1:]]
        if inner:
            middle = (chunk.start + chunk.end) / 2
            cuts.add(sentence_at[min(inner, key=lambda start: abs(start - middle))])
    return [*sorted(cuts), len(sentences)]


def _ragged(ids, spans):
    starts, lengths = spans[:, 0], spans[:, 1] - spans[:, 0]
    return tf.RaggedTensor.from_row_lengths(ids[ranges(starts, lengths)], lengths, validate=False)
