"""filter_corpus: the coherent documents of a corpus, with the scores of all."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from albert_keras.data.corpus import are_packed, read_documents, text_files, total_bytes
from albert_keras.data.records import refuse_empty
from albert_keras.json_file import write_json
from albert_keras.new_folder import new_folder
from albert_keras.report.axes import import_matplotlib
from albert_keras.tasks.calibration import Calibration, plot_calibration
from albert_keras.tasks.coherence import CoherenceScorer
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.shuffled_documents import Reservoir, has_other_order, shuffle_check

KEPT, SCORES, SUMMARY, PLOT = "kept.txt", "scores.jsonl", "summary.json", "calibration.png"
_SHOWN_CHARACTERS = 80
# Of a document of the check so many are shuffled, the first: its documents are in memory at once,
# and one may be a library of novels.
_CHECKED_SENTENCES = 100
_WITHOUT_A_SCORE = "kept_without_a_pair", "dropped_without_tokens"
_BELOW = "dropped_below_threshold"


def filter_corpus(
    inputs: Sequence[str | Path],
    scorer: CoherenceScorer,
    folder: str | Path,
    *,
    threshold: float = 0.5,
    check: int = 500,
    seed: int = 0,
    sentences: Literal["line", "split"] = "line",
    field: str | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> dict[str, Any]:
    """Scores every document of a corpus and writes those that are coherent.

    The new folder holds

        kept.txt         the documents whose coherence is at or above the threshold, a sentence a
                         line and a blank line behind each, as `read_documents` reads it (of
                         texts from JSON without their NULs, which plain text may not have)
        scores.jsonl     of every document, in their order, its number (from 0), its first
                         characters, sentences, coherence, whether it was kept; the sentence at
                         which each segment begins; and of each two segments in a row the
                         probability that they are in order, as they stand and swapped, null where
                         they are too long together
        summary.json     what this returns
        calibration.png  the share in order over the predicted probability

    A document without a pair (one sentence; none that fit into a row together) cannot be scored and
    is kept: nothing speaks against it. One without tokens is dropped. Both are counted. Only a
    block of documents and those of the check are in memory at a time.

    Args:
        inputs: text files, folders and "-", as `read_documents` takes them.
        scorer: gives the scores.
        folder: made by this call, whole or not at all.
        threshold: the least coherence that is kept, in 0..1. Default 0.5, that of a coin.
        check: how many documents, drawn from all that were scored, are scored again with their
            sentences shuffled, of long ones the first hundred; 0 for none. Default 500.
        seed: of that draw and of the shuffling.
        sentences, field: as of `read_documents`.
        progress: called with (bytes of text done, bytes in all or None when nobody knows).

    Returns:
        `threshold`; `counts` of documents (read, kept, kept_without_a_pair among these,
        dropped_below_threshold, dropped_without_tokens), pairs scored and pairs_too_long; `dropped`
        before, by reason, as of `read_documents`; of `pairs` the `sop_accuracy`, asked as they
        stand and swapped, the share in which the order as they stand is `likelier`, with its
        interval, and the `calibration` in bins with its `calibration_error`; `shuffled`, what
        `shuffle_check` gives.

    Raises:
        ValueError: a bad input, by name (see `read_documents`); a corpus without text; a folder
            that exists; an argument out of its range.
        ImportError: matplotlib is missing.

    Example:
        >>> scorer = CoherenceScorer(model, tokenizer, max_length=128)
        >>> filter_corpus(["web/"], scorer, "coherent", sentences="split")["counts"]["kept"]
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"`threshold` must be in 0..1. Received: {threshold}.")
    if check < 0:
        raise ValueError(f"`check` must be 0 or more documents. Received: {check}.")
    import_matplotlib()
    dropped: Counter = Counter()
    documents = read_documents(inputs, sentences, field=field, dropped=dropped)
    files = text_files(inputs)
    text_bytes = None if are_packed(files) else total_bytes(files)
    generator = random.Random(seed)
    sample: Reservoir[list[str]] = Reservoir(check, generator)
    tally = _Tally()
    done = 0
    with new_folder(folder) as partial:
        with (
            (partial / SCORES).open("w", encoding="utf-8") as scores,
            (partial / KEPT).open("w", encoding="utf-8") as kept_text,
        ):
            for number, document in enumerate(scorer(documents)):
                kept = tally.add(document, threshold)
                scores.write(_score_line(number, document, kept))
                if kept:
                    kept_text.write(_plain(document.sentences))
                some = document.sentences[:_CHECKED_SENTENCES]
                if document.coherence is not None and has_other_order(some):
                    sample.add(some)
                done += sum(len(line.encode()) + 1 for line in document.sentences)
                if progress:
                    progress(done, text_bytes)
        tally.refuse_no_tokens(inputs)
        summary = {
            "threshold": threshold,
            "counts": tally.counts,
            "dropped": dict(dropped),
            "pairs": tally.of_pairs(),
            "shuffled": {"seed": seed, **shuffle_check(sample.items, scorer, generator)},
        }
        write_json(partial / SUMMARY, summary)
        plot_calibration(tally.calibration.bins(), partial / PLOT, of="in order")
    return summary


class _Tally:
    """Counts of documents and pairs; a pair is an example in order, and swapped one that is not."""

    def __init__(self):
        self.calibration = Calibration()
        names = "documents", "kept", *_WITHOUT_A_SCORE, _BELOW, "pairs", "pairs_too_long"
        self.counts = dict.fromkeys(names, 0)
        self._right = self._likelier = 0.0

    def add(self, document, threshold):
        """Whether the document is kept."""
        score = document.coherence
        if score is None:
            kept = bool(document.segments)
            self.counts[_WITHOUT_A_SCORE[not kept]] += 1
        else:
            kept = score >= threshold
            self.counts[_BELOW] += not kept
        self.counts["documents"] += 1
        self.counts["kept"] += kept
        is_pair = ~np.isnan(document.in_order)
        in_order, swapped = document.in_order[is_pair], document.swapped[is_pair]
        self.counts["pairs"] += len(in_order)
        self.counts["pairs_too_long"] += len(is_pair) - len(in_order)
        self.calibration.add(in_order, np.ones(len(in_order)))
        self.calibration.add(swapped, np.zeros(len(swapped)))
        self._right += _above(in_order, 0.5) + _above(0.5, swapped)
        self._likelier += _above(in_order, swapped)
        return kept

    def refuse_no_tokens(self, inputs):
        with_tokens = self.counts["documents"] - self.counts[_WITHOUT_A_SCORE[1]]
        refuse_empty(Counter(tokens=with_tokens), inputs)

    def of_pairs(self):
        pairs = self.counts["pairs"]
        if not pairs:
            return {}
        return {
            "sop_accuracy": self._right / (2 * pairs),
            "likelier": self._likelier / pairs,
            "likelier_interval": wilson_interval(self._likelier, pairs),
            "calibration_error": self.calibration.error(),
            "calibration": self.calibration.bins(),
        }


def _above(one, other):
    """How often one is above the other, equal ones counting half."""
    return float(np.count_nonzero(one > other) + np.count_nonzero(one == other) / 2)


def _score_line(number, document, kept):
    line = {
        "document": number,
        "begins": document.sentences[0][:_SHOWN_CHARACTERS],
        "sentences": len(document.sentences),
        "coherence": None if document.coherence is None else round(document.coherence, 6),
        "kept": kept,
        "segments": document.segments[:-1],
        "in_order": _listed(document.in_order),
        "swapped": _listed(document.swapped),
    }
    return json.dumps(line, ensure_ascii=False) + "\n"


def _listed(probabilities):
    return [None if np.isnan(one) else round(float(one), 6) for one in probabilities]


def _plain(sentences):
    lines = (line.replace("\0", "").strip() for line in sentences)
    return "".join(line + "\n" for line in lines if line) + "\n"
