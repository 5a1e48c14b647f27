"""Honest baselines of the demo, on exactly the held-out examples that the models answer.

    python -m examples.demo.baselines --corpus demo/corpus --records demo/records \\
        --vocabulary demo/vocabulary --out demo/baselines

writes to the folder

    library.json  accuracy of a bag of words (TF-IDF of words and word pairs, logistic regression)
    library.tsv   its predictions
    order.json    accuracy of a bag of words that is asked which of two segments came first
"""

import argparse
import collections
import json
import math
from pathlib import Path

import numpy as np

# Of the order baseline: pieces pairs are hashed to this many columns.
HASHED_PAIRS = 1 << 18


def wilson_interval(correct, total, z=1.96):
    """The 95 % interval of a share (Wilson 1927): it holds near 0 and 1 and for small samples.

    >>> [round(end, 4) for end in wilson_interval(9, 10)]
    [0.5958, 0.9821]
    """
    if total == 0:
        return [0.0, 1.0]
    share, z2 = correct / total, z * z / total
    middle = (share + z2 / 2) / (1 + z2)
    half = z / (1 + z2) * math.sqrt(share * (1 - share) / total + z2 / (4 * total))
    return [middle - half, middle + half]


def paired_difference(first, second, z=1.96):
    """By how much the share of correct answers of `first` exceeds `second`'s, on the same examples.

    Args:
      first, second: sequences of booleans, one an example, in the same order.

    Returns:
      (difference, half the width of its 95 % interval): the examples on which both are right or
      both are wrong do not widen it.
    """
    gaps = np.asarray(first, float) - np.asarray(second, float)
    return float(gaps.mean()), float(z * gaps.std() / math.sqrt(len(gaps)))


def score(correct, labels):
    """What the files of this module say about a list of answers, each right or wrong."""
    correct = [bool(answer) for answer in correct]
    return {
        "accuracy": sum(correct) / len(correct),
        "interval": wilson_interval(sum(correct), len(correct)),
        "examples": len(correct),
        "majority": max(collections.Counter(labels).values()) / len(labels),
    }


def read_rows(file):
    """The rows of a tab-separated file with a header, as dicts."""
    header, *rows = (line.split("\t") for line in Path(file).read_text("utf-8").splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def library_predictions(train_texts, train_labels, texts):
    """Labels that a bag of words gives: TF-IDF of words and word pairs, logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    # C and the solver are the best of what was tried on the held-out examples themselves, which is
    # to the baseline's advantage.
    classifier = LogisticRegression(C=10, solver="saga", tol=1e-2, random_state=0)
    classifier.fit(words.fit_transform(train_texts), train_labels)
    return classifier.predict(words.transform(texts)).tolist()


def order_features(token_ids, segment_ids, vocab_size, first_ordinary_id=5):
    """A sparse row a pair: which pieces, and which neighbouring two, stand in A, and which in B.

    Args:
      token_ids: int [B, S], "[CLS] A [SEP] B [SEP]" and padding.
      segment_ids: int [B, S], 0 for A, 1 for B.
      vocab_size: V.
      first_ordinary_id: ids below it are special pieces, which are no features.

    Returns:
      A scipy.sparse matrix of zeros and ones, [B, 2 V + 2 HASHED_PAIRS].
    """
    from scipy import sparse

    ordinary = token_ids >= first_ordinary_id
    row, at = np.nonzero(ordinary)
    columns = [token_ids[row, at] + vocab_size * segment_ids[row, at]]
    rows = [row]
    row, at = np.nonzero(
        ordinary[:, :-1] & ordinary[:, 1:] & (segment_ids[:, :-1] == segment_ids[:, 1:])
    )
    pair = token_ids[row, at].astype(np.int64) * vocab_size + token_ids[row, at + 1]
    hashed = pair * 2654435761 % 2**32 % HASHED_PAIRS  # Knuth's multiplicative hash
    columns.append(2 * vocab_size + hashed + HASHED_PAIRS * segment_ids[row, at])
    rows.append(row)
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    matrix = sparse.csr_matrix(
        (np.ones(len(rows), np.float32), (rows, columns)),
        shape=(len(token_ids), 2 * vocab_size + 2 * HASHED_PAIRS),
    )
    matrix.data[:] = 1  # csr_matrix adds up what stands twice
    return matrix


def order_answers(train, test, vocab_size):
    """Whether a bag of words tells the order of each test pair.

    Args:
      train, test: (token_ids [B, S], segment_ids [B, S], labels [B]).
      vocab_size: V.

    Returns:
      A list of booleans, one a test pair.
    """
    from sklearn.linear_model import LogisticRegression

    # As in library_predictions: the best C of 0.01, 0.03, 0.1 and 0.3 on the test pairs.
    classifier = LogisticRegression(C=0.03, solver="saga", tol=1e-2, random_state=0)
    classifier.fit(order_features(train[0], train[1], vocab_size), train[2])
    predicted = classifier.predict(order_features(test[0], test[1], vocab_size))
    return (predicted == np.asarray(test[2])).tolist()


def read_pairs(records, batch_size, length, special_ids, *, seed, count=None):
    """Segment pairs as the model gets them, except that nothing is masked: the baseline sees more.

    Args:
      records: a `RecordSet`.
      batch_size, length, seed: as in the run to compare with; they decide the pairs.
      special_ids: (id of `[CLS]`, id of `[SEP]`).
      count: number of pairs to read, None for one pass over all records in their order.

    Returns:
      (token_ids [N, S], segment_ids [N, S], labels [N]), without chunks of a single sentence.
    """
    from albert_keras.data.pretraining import pretraining_batches

    batches = pretraining_batches(
        records,
        batch_size=batch_size,
        sequence_length=length,
        mask=lambda token_ids, seed: {},
        cls_id=special_ids[0],
        sep_id=special_ids[1],
        seed=seed,
        repeat=count is not None,
    )
    parts, found = [], 0
    for batch in batches.as_numpy_iterator():
        keep = batch["sop_weights"] > 0
        parts.append([batch[name][keep] for name in ("token_ids", "segment_ids", "sop_labels")])
        found += int(keep.sum())
        if count is not None and found >= count:
            break
    return tuple(np.concatenate(column)[:count] for column in zip(*parts, strict=True))


def write_json(content, file):
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train.tsv, dev.tsv")
    parser.add_argument("--records", type=Path, required=True, help="folder of train/, heldout/")
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--length", type=int, default=64, help="of the model's sequences")
    parser.add_argument("--batch", type=int, default=32, help="the model's")
    parser.add_argument("--pairs", type=int, default=100_000, help="pairs to learn the order from")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)

    rows = read_rows(arguments.corpus / "train.tsv"), read_rows(arguments.corpus / "dev.tsv")
    (train_texts, train_labels), (texts, labels) = (
        [[row[name] for row in side] for name in ("text", "label")] for side in rows
    )
    predicted = library_predictions(train_texts, train_labels, texts)
    library = score([a == b for a, b in zip(labels, predicted, strict=True)], labels)
    write_json(library, arguments.out / "library.json")
    rows = [("label", "predicted"), *zip(labels, predicted, strict=True)]
    (arguments.out / "library.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    print(f"Library, bag of words: {library['accuracy']:.3f} of {library['examples']:,} paragraphs")

    from albert_keras import Tokenizer
    from albert_keras.data.records import RecordSet

    tokenizer = Tokenizer.load(arguments.vocabulary)
    train, test = (
        read_pairs(
            RecordSet.load(arguments.records / side, tokenizer),
            arguments.batch,
            arguments.length,
            (tokenizer.cls_id, tokenizer.sep_id),
            seed=0,
            count=count,
        )
        for side, count in (("train", arguments.pairs), ("heldout", None))
    )
    order = score(order_answers(train, test, tokenizer.vocab_size), test[2].tolist())
    write_json(order | {"train_pairs": len(train[2])}, arguments.out / "order.json")
    print(f"Sentence order, bag of words: {order['accuracy']:.3f} of {order['examples']:,} pairs")


if __name__ == "__main__":
    main()
