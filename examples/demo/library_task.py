"""The demo's classification task: which library does a paragraph document?

The libraries' names and import aliases are cut out of the text, or the task would be to find them:

    "Converts a KerasTensor to np.ndarray."  ->  "Converts a Tensor to ndarray."
"""

import collections
import hashlib
import re
from pathlib import Path

MIN_EXAMPLES = 500  # training paragraphs that a library needs to be a class
TRAIN_EXAMPLES = 1500  # a class at most, so that the largest library is not half of the data
DEV_EXAMPLES = 300
WORDS = range(12, 61)  # shorter paragraphs say too little; longer ones are cut at 64 pieces or so

# What people call a library, besides the names of its distribution and of its packages.
ALIASES = {
    "fonttools": ["font tools"],
    "matplotlib": ["mpl", "plt", "pyplot"],
    "numpy": ["np"],
    "pytest": ["py.test"],
    "scikit-learn": ["scikit learn", "scikit"],
    "scipy": ["sp"],
    "stdlib": ["python", "cpython", "py"],
    "tensorflow": ["tf", "tflite"],
}


def make_examples(train, held_out):
    """Chooses the classes and their paragraphs.

    Args:
      train: the training side's list of `Document`.
      held_out: the held-out side's.

    Returns:
      (training examples, held-out examples): lists of (text, label) in an order without meaning,
      the same for the same documents.
    """
    counts = collections.Counter(label for _, label in _paragraphs(train))
    classes = {label for label, count in counts.items() if count >= MIN_EXAMPLES}
    names = names_pattern([doc.source for doc in train if doc.source.library in classes])
    return (
        _select(train, classes, names, TRAIN_EXAMPLES),
        _select(held_out, classes, names, DEV_EXAMPLES),
    )


def names_pattern(sources):
    """The pattern of the names of all libraries in a list of `Source`."""
    names = set()
    for library, path, _ in sources:
        names |= {library, *ALIASES.get(library, ())}
        if library != "stdlib":
            names.add(path.split("/")[0].removesuffix(".py").strip("_").lower())
    ordered = sorted(names, key=lambda name: (-len(name), name))
    # Long names also go from inside words (KerasTensor), short ones only where they stand alone or
    # beside an underscore or digit (np_array, tf2).
    inside = "|".join(re.escape(name) for name in ordered if len(name) > 4)
    alone = "|".join(re.escape(name) for name in ordered if len(name) <= 4)
    return re.compile(
        rf"(?:{inside or '(?!)'}|(?<![a-z])(?:{alone or '(?!)'})(?![a-z]))(?:['’]s\b|[._-](?=\w))?",
        re.IGNORECASE,
    )


def without_names(text, names):
    """A text without what `names` finds, and without the gaps that this leaves."""
    text = re.sub(r"\s+", " ", names.sub("", text))
    return re.sub(r" ([,.;:!?)])(?= |$)", r"\1", text).lstrip(" .,;:-").rstrip(" -")


def write_examples(examples, file):
    """Writes (text, label) rows below a header; neither holds a tab or a line break."""
    rows = [("text", "label"), *examples]
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def read_rows(file):
    """The rows of a tab-separated file with a header, as dicts."""
    header, *rows = (line.split("\t") for line in Path(file).read_text("utf-8").splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def _paragraphs(documents):
    for document in documents:
        for paragraph in document.paragraphs:
            if len(paragraph.split()) in WORDS:
                yield paragraph, document.source.library


def _select(documents, classes, names, most):
    by_label = collections.defaultdict(list)
    for paragraph, label in _paragraphs(documents):
        text = without_names(paragraph, names)
        if label in classes and len(text.split()) in WORDS:
            by_label[label].append(text)
    chosen = [
        (text, label)
        for label, texts in by_label.items()
        for text in sorted(texts, key=_hash)[:most]
    ]
    return sorted(chosen, key=lambda example: _hash(example[0]))


def _hash(text):
    return hashlib.sha256(text.encode()).digest()
