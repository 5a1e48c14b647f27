"""The demo's corpus builder and baselines, on made-up sources. The demo itself is `make demo`."""

import json
import textwrap

import numpy as np
import pytest

from examples.demo.__main__ import take_folder
from examples.demo.baselines import (
    library_predictions,
    order_answers,
    order_features,
)
from examples.demo.corpus import build_corpus, is_held_out, split_documents
from examples.demo.docstrings import Document, Source, read_source, sources_below
from examples.demo.library_task import make_examples, names_pattern, read_rows, without_names
from examples.demo.plots import confusion
from examples.demo.prose import paragraphs
from examples.demo.report import paired_difference


def source(name, library="shop"):
    return Source(library, f"shop/{name}.py", f"/nowhere/shop/{name}.py")


def named(held_out, library="shop"):
    """A source on the wanted side of the split."""
    numbers = range(1000)
    return next(
        s for s in (source(f"m{i}", library) for i in numbers) if is_held_out(s) == held_out
    )


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Return the mean of it.", ["Return the mean of it."]),
        ("One line that\n    goes on here.", ["One line that goes on here."]),
        ("Use it as shown here:\n\n>>> mean([1])\n1\n\nThat is all there is.",
         ["Use it as shown here", "That is all there is."]),
        ("Args:\n  size: The number of rows.\n    Zero is fine.\n  name: A name for the table.",
         ["The number of rows. Zero is fine.", "A name for the table."]),
        ("Parameters\n----------\nsize : int, optional\n    The number of rows.",
         ["The number of rows."]),
        (":param int size: The number of rows.\n:returns: A table of that size.",
         ["The number of rows.", "A table of that size."]),
        ("It does this and that::\n\n    this()\n    that()\n\nThen it is done.",
         ["It does this and that", "Then it is done."]),
        ("```python\nthis is code in words\n```\nAnd this is prose again.",
         ["And this is prose again."]),
        (".. note:: Mind the gap\n   between the rows.\n\n.. code:: c\n\n   these are no words",
         ["Mind the gap between the rows."]),
        ("See Also\n--------\nmedian : The middle of the values.", []),
        ("A `~shop.Table` or :class:`~shop.rows.Row`, see [1]_ and `docs <http://a.b>`_.",
         ["A shop.Table or Row, see and docs."]),
        ("- The first of the things.\n- The second of\n  the things.",
         ["The first of the things.", "The second of the things."]),
        ("x = y + z * 2 - 3 / 4", []),
        ("A NUL \0 is no part of it.\n\nNor is the half of a pair, \ud800, of it.", []),
        ("| a | table |\n|---|-------|\n| of | some cells |", []),
    ],
)  # fmt: skip
def test_prose_of_a_docstring_is_its_sentences(docstring, expected):
    assert paragraphs(docstring) == expected


def test_docstrings_are_read_in_file_order_and_nothing_is_run(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        textwrap.dedent('''
            """The module says a thing."""
            raise RuntimeError("imported")
            class Shop:
                """The class says a thing."""
                def open(self):
                    """The method says a thing."""
                    return """This is not a docstring."""
            if True:
                async def late():
                    """The function says a thing."""
        ''')
    )
    documents, characters = read_source(Source("shop", "module.py", str(file)))
    assert [document.paragraphs for document in documents] == [
        (f"The {part} says a thing.",) for part in ("module", "class", "method", "function")
    ]
    assert characters == sum(len(document.paragraphs[0]) for document in documents)


def test_a_file_that_does_not_parse_is_counted_not_read(tmp_path):
    file = tmp_path / "template.py"
    file.write_text('"""A template of a module."""\n{{ code }}\ndef\n')
    assert read_source(Source("shop", "template.py", str(file))) is None


def test_tests_and_vendored_copies_are_no_sources_and_the_kerases_are_one_library(tmp_path):
    files = ["keras/a.py", "tf_keras/a.py", "keras/tests/b.py", "pip/_vendor/c.py", "one.py"]
    for name in [*files, "keras/a_test.py", "tensorflow/python/keras/d.py", "keras/readme.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = sources_below(tmp_path, lambda package: package)
    assert sorted((s.library, s.path) for s in found) == [
        ("keras", "keras/a.py"),
        ("keras", "tf_keras/a.py"),
        ("one", "one.py"),
    ]


def test_the_split_is_by_file_and_takes_a_tenth():
    held_out = [is_held_out(source(f"module{i}")) for i in range(10_000)]
    assert 0.09 < np.mean(held_out) < 0.11
    old = Source("keras", "tf_keras/src/layers/dense.py", "")
    assert is_held_out(old) == is_held_out(Source("keras", "keras/src/layers/dense.py", ""))


def test_what_recurs_is_kept_once_and_no_held_out_paragraph_is_a_near_copy():
    train, held_out = named(False), named(True)
    text = "Return a new table that holds the rows of this one in sorted order."
    documents = [
        Document(train, (text, "Only the first of the tables has this paragraph.")),
        Document(train, (text.upper(), "Another paragraph about quite another thing.")),
        Document(held_out, (text.replace("a new", "the new"), "A paragraph of its own, all new.")),
    ]
    kept, tested, dropped = split_documents(documents)
    assert [document.paragraphs for document in kept] == [
        documents[0].paragraphs,
        documents[1].paragraphs[1:],
    ]
    assert [document.paragraphs for document in tested] == [documents[2].paragraphs[1:]]
    assert dropped == {"recurring": 1, "near copy of a training paragraph": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Converts a KerasTensor to np.ndarray.", "Converts a Tensor to ndarray."),
        ("NumPy's arrays, unlike those of `tf`.", "arrays, unlike those of ``."),
        ("Call tf.keras.Model or NP_ARRAY.", "Call Model or ARRAY."),
        ("The inputs, outputs and snippets stay.", "The inputs, outputs and snippets stay."),
    ],
)
def test_names_of_libraries_are_cut_out(text, expected):
    libraries = ("keras", "tensorflow", "numpy")
    names = names_pattern([Source(name, f"{name}/a.py", "") for name in libraries])
    assert without_names(text, names) == expected


def test_classes_are_the_libraries_with_enough_paragraphs():
    def documents(library, held_out, count):
        where = named(held_out, library)
        words = "it says a great many things about the work of the"
        return [Document(where, (f"{words} {library} in number {i}",)) for i in range(count)]

    train = documents("large", False, 2000) + documents("small", False, 499)
    train_examples, dev_examples = make_examples(train, documents("large", True, 400))
    assert {label for _, label in train_examples} == {"large"}
    assert (len(train_examples), len(dev_examples)) == (1500, 300)
    assert not any("large" in text for text, _ in train_examples)


def test_the_same_sources_give_the_same_corpus_whatever_the_processes(tmp_path):
    for i in range(60):
        file = tmp_path / "packages" / "shop" / f"m{i}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        name = chr(97 + i % 26) * 3 + chr(97 + i // 26)
        second = "" if i < 20 else f" A second sentence says more of {name}."
        file.write_text(f'"""This is what the module {name} does.{second}"""\n')
    sources = sorted(sources_below(tmp_path / "packages", lambda package: package))
    summary = build_corpus(sources, tmp_path / "one", processes=1)
    build_corpus(sources, tmp_path / "two", processes=2)
    paths = (tmp_path / "one").rglob("*.*")
    names = sorted(path.relative_to(tmp_path / "one").as_posix() for path in paths)
    assert names == [
        "dev.tsv", "heldout/shop.txt", "summary.json", "train.tsv", "train/shop.txt",
    ]  # fmt: skip
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert json.loads((tmp_path / "one" / "summary.json").read_text())["source_files"] == 60
    # A single sentence has no order to learn.
    assert summary["train"]["paragraphs"] + summary["heldout"]["paragraphs"] == 40
    assert list(summary["dropped_docstrings"].values()) == [20]
    assert read_rows(tmp_path / "one" / "train.tsv") == []  # no library has enough of them


def test_paired_difference_knows_only_the_examples_that_differ():
    first = [True] * 60 + [False] * 40
    second = [True] * 50 + [False] * 50
    difference, half = paired_difference(first, second)
    assert difference == pytest.approx(0.1)
    # 10 of 100 differ, all one way: variance (0.1 - 0.1**2) / 100.
    assert half == pytest.approx(1.96 * np.sqrt(0.09 / 100))


def test_the_bag_of_words_finds_a_word_that_tells_the_class():
    pytest.importorskip("sklearn")
    texts = [f"{word} in row {i}" for i in range(50) for word in ("apples", "pears")]
    predicted = library_predictions(texts, ["a", "p"] * 50, ["some apples", "these pears"])
    assert predicted == ["a", "p"]


def test_order_features_tell_segments_and_neighbours_apart():
    pytest.importorskip("scipy")
    ids = np.array([[2, 7, 8, 3, 9, 3, 0], [2, 9, 3, 7, 8, 3, 0]])
    segments = np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 0]])
    features = order_features(ids, segments, vocab_size=20)
    assert features.sum(axis=1).ravel().tolist() == [[4, 4]]  # 7, 8, 9 and the neighbours 7 8
    single = features[:, :40].toarray()
    assert np.nonzero(single[0])[0].tolist() == [7, 8, 29]
    assert np.nonzero(single[1])[0].tolist() == [9, 27, 28]
    assert (features[0, 40:] != features[1, 40:]).sum() == 2


def test_the_order_baseline_learns_which_piece_comes_first():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400)
    first, last = 7, 8
    ids = np.zeros((400, 8), int)
    ids[:, [0, 2, 5]] = 2, 3, 3
    ids[:, 1] = np.where(labels == 1, first, last)
    ids[:, 3] = np.where(labels == 1, last, first)
    ids[:, 4] = rng.integers(10, 50, size=400)
    segments = np.array([[0, 0, 0, 1, 1, 1, 0, 0]] * 400)
    pairs = ids, segments, labels
    assert np.mean(order_answers(pairs, pairs, vocab_size=50)) > 0.95


def test_confusion_counts_true_libraries_in_rows():
    counts = confusion(["a", "a", "b"], ["a", "b", "b"], ["a", "b", "c"])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]


def test_a_folder_that_is_no_demo_is_left_alone(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="--out must be a new folder"):
        take_folder(tmp_path)
    assert (tmp_path / "corpus" / "mine.txt").exists()
    take_folder(tmp_path / "demo")
    (tmp_path / "demo" / "corpus").mkdir()
    take_folder(tmp_path / "demo")
    assert not (tmp_path / "demo" / "corpus").exists()
