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
from pathlib import Path

import numpy as np

from albert_keras import Tokenizer
from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.record_set import RecordSet
from albert_keras.json_file import write_json
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.pretraining_scores import EVALUATION_SEED
from examples.demo.library_task import read_rows

# Of the order baseline: pieces pairs are hashed to this many columns.
HASHED_PAIRS = 1 << 18


def score(correct, labels):
    """What the files of this module say about a list of answers, each right or wrong."""
    correct = [bool(answer) for answer in correct]
    return {
        "accuracy": sum(correct) / len(correct),
        "accuracy_interval": wilson_interval(sum(correct), len(correct)),
        "examples": len(correct),
        "majority": max(collections.Counter(labels).values()) / len(labels),
    }


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


def read_pairs(records, tokenizer, length, count=None):
    """Segment pairs as the model gets them, except that nothing is masked: the baseline sees more.

    Args:
      records: a `RecordSet`.
      tokenizer: its `Tokenizer`.
      length: S, of the model.
      count: how many random pairs to read; None for those of `tasks.pretraining_scores.evaluate`,
        which takes the records in their order, in batches of 64, and draws from a seed of its own.

    Returns:
      (token_ids [N, S], segment_ids [N, S], labels [N]), without chunks of a single sentence.
    """
    batches = pretraining_batches(
        records,
        batch_size=64,
        sequence_length=length,
        mask=lambda token_ids, seed: {},
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        seed=EVALUATION_SEED if count is None else 0,
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


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train.tsv, dev.tsv")
    parser.add_argument("--records", type=Path, required=True, help="folder of train/, heldout/")
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--length", type=int, default=64, help="of the model's sequences")
    parser.add_argument("--pairs", type=int, default=100_000, help="pairs to learn the order from")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)

    rows = read_rows(arguments.corpus / "train.tsv"), read_rows(arguments.corpus / "dev.tsv")
    (train_texts, train_labels), (texts, labels) = (
        [[row[name] for row in side] for name in ("text", "label")] for side in rows
    )
    predicted = library_predictions(train_texts, train_labels, texts)
    library = score([a == b for a, b in zip(labels, predicted, strict=True)], labels)
    write_json(arguments.out / "library.json", library)
    rows = [("label", "predicted"), *zip(labels, predicted, strict=True)]
    (arguments.out / "library.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    print(f"Library, bag of words: {library['accuracy']:.3f} of {library['examples']:,} paragraphs")

    tokenizer = Tokenizer.load(arguments.vocabulary)
    train, test = (
        read_pairs(RecordSet.load(arguments.records / side, tokenizer), tokenizer, length, count)
        for side, length, count in (
            ("train", arguments.length, arguments.pairs),
            ("heldout", arguments.length, None),
        )
    )
    order = score(order_answers(train, test, tokenizer.vocab_size), test[2].tolist())
    write_json(arguments.out / "order.json", order | {"train_pairs": len(train[2])})
    print(f"Sentence order, bag of words: {order['accuracy']:.3f} of {order['examples']:,} pairs")


if __name__ == "__main__":
    main()
