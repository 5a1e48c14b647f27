"""Builds the demo's corpus: the docstrings of the standard library and the installed packages.

    python -m examples.demo.corpus --out demo/corpus

The folder holds

    train/, heldout/    a text file a library: a paragraph a line, a blank line between docstrings
    train.tsv, dev.tsv  text<TAB>label: a paragraph, and the library that it documents
    summary.json        what was read, kept and dropped

Whole source files go to one side or the other, by a hash of their path, so no docstring of a file
in `heldout/` or `dev.tsv` was ever trained on. The same packages give the same bytes.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from examples.demo.docstrings import installed_sources, read_source
from examples.demo.library_task import make_examples, write_examples

HELD_OUT = 0.1  # of the source files


def is_held_out(source):
    """Whether a file is on the held-out side: decided by a hash of its path.

    The top-level package is left out of the hash, so that `keras/src/layers/core/dense.py` and
    `tf_keras/src/layers/core/dense.py`, half of whose text is the same, stay together.
    """
    key = source.library + "/" + source.path.split("/", 1)[-1]
    return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) < HELD_OUT * 2**32


def split_documents(documents):
    """Splits documents by source file, and drops what would let one side see the other.

    A paragraph that recurs (the same words, whatever the digits, case and punctuation) is kept only
    where it comes first. A held-out paragraph goes too when more than half of its five-word
    sequences stand somewhere in the training text: it is a copy with small edits.

    Args:
      documents: a list of `Document`, in a fixed order.

    Returns:
      (training documents, held-out documents, number of dropped paragraphs by reason)
    """
    dropped = collections.Counter()
    train, held_out, seen = [], [], set()
    for document in documents:
        kept = []
        for paragraph in document.paragraphs:
            words = hash(_words(paragraph))
            if words in seen:
                dropped["recurring"] += 1
            else:
                seen.add(words)
                kept.append(paragraph)
        if kept:
            side = held_out if is_held_out(document.source) else train
            side.append(document._replace(paragraphs=tuple(kept)))

    trained = {five for doc in train for paragraph in doc.paragraphs for five in _fives(paragraph)}
    distinct = []
    for document in held_out:
        kept = []
        for paragraph in document.paragraphs:
            fives = _fives(paragraph)
            if sum(five in trained for five in fives) > 0.5 * len(fives):
                dropped["near copy of a training paragraph"] += 1
            else:
                kept.append(paragraph)
        if kept:
            distinct.append(document._replace(paragraphs=tuple(kept)))
    return train, distinct, dict(dropped)


def _words(paragraph):
    return tuple(re.findall("[a-z]+", paragraph.lower()))


def _fives(paragraph):
    words = _words(paragraph)
    return {hash(words[i : i + 5]) for i in range(max(len(words) - 4, 1))}


def ordered_documents(documents):
    """The documents of two sentences and more.

    Half of all docstrings are one sentence: a tenth of the text, but half of the sequences, which
    would teach nothing about order and be mostly padding. As paragraphs to classify they stay.
    """
    return [
        document
        for document in documents
        if len(document.paragraphs) > 1 or re.search(r"[.!?] +[A-Z]", document.paragraphs[0])
    ]


def write_texts(documents, folder):
    """Writes a text file a library: a paragraph a line, a blank line after each document."""
    folder.mkdir(parents=True)
    by_library = collections.defaultdict(list)
    for document in documents:
        by_library[document.source.library].append("\n".join(document.paragraphs) + "\n\n")
    for library, texts in by_library.items():
        (folder / f"{library}.txt").write_text("".join(texts), encoding="utf-8")


def build_corpus(sources, folder, processes=None):
    """Reads sources and writes the corpus folder.

    Args:
      sources: a list of `Source`.
      folder: where to write; one of an earlier run is replaced.
      processes: number of processes that parse, default one a core.

    Returns:
      What summary.json holds.
    """
    started = time.time()
    with ProcessPoolExecutor(processes) as pool:
        read = list(pool.map(read_source, sources, chunksize=32))
    documents = [document for result in read if result for document in result[0]]
    train, held_out, dropped = split_documents(documents)
    train_examples, dev_examples = make_examples(train, held_out)

    folder = Path(folder)
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    train_texts, held_out_texts = ordered_documents(train), ordered_documents(held_out)
    write_texts(train_texts, unfinished / "train")
    write_texts(held_out_texts, unfinished / "heldout")
    write_examples(train_examples, unfinished / "train.tsv")
    write_examples(dev_examples, unfinished / "dev.tsv")
    summary = {
        "source_files": len(sources),
        "source_bytes": sum(os.path.getsize(source.file) for source in sources),
        "unparsed_files": [s.path for s, result in zip(sources, read, strict=True) if not result],
        "docstring_characters": sum(result[1] for result in read if result),
        "dropped_paragraphs": dropped,
        "dropped_docstrings": {
            "a single sentence, which has no order to learn": len(train + held_out)
            - len(train_texts + held_out_texts)
        },
        "train": _size(train_texts),
        "heldout": _size(held_out_texts),
        "train_examples": dict(collections.Counter(label for _, label in train_examples)),
        "dev_examples": dict(collections.Counter(label for _, label in dev_examples)),
    }
    (unfinished / "summary.json").write_text(json.dumps(summary, indent=2, sort_keys=True) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return summary | {"seconds": time.time() - started}


def _size(documents):
    paragraphs = [paragraph for document in documents for paragraph in document.paragraphs]
    return {
        "files": len({document.source for document in documents}),
        "docstrings": len(documents),
        "paragraphs": len(paragraphs),
        "bytes": sum(len(paragraph.encode()) + 1 for paragraph in paragraphs),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the corpus folder; replaced if it exists")
    arguments = parser.parse_args(argv)
    summary = build_corpus(installed_sources(), arguments.out)
    print(
        f"{summary['source_files']:,} files, {summary['source_bytes'] / 1e6:.0f} MB of Python: "
        f"{summary['docstring_characters'] / 1e6:.1f} MB of docstrings, "
        f"read in {summary['seconds']:.0f} s"
    )
    for side in ("train", "heldout"):
        size = summary[side]
        print(
            f"  {side:8} {size['bytes'] / 1e6:5.1f} MB of prose: {size['paragraphs']:,} paragraphs "
            f"of {size['docstrings']:,} docstrings of {size['files']:,} files"
        )
    for reason, count in summary["dropped_paragraphs"].items():
        print(f"  dropped  {count:,} paragraphs: {reason}")
    for reason, count in summary["dropped_docstrings"].items():
        print(f"  dropped  {count:,} docstrings from these: {reason}")
    print(f"  classes  {len(summary['train_examples'])}, paragraphs to train on / to test on:")
    for label, count in sorted(summary["train_examples"].items(), key=lambda pair: -pair[1]):
        print(f"    {label:16} {count:5,} / {summary['dev_examples'].get(label, 0):,}")


if __name__ == "__main__":
    main()
