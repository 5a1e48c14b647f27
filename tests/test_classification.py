"""Text classification: what a file may hold, what a batch is, what a score counts."""

import numpy as np
import pytest
from small_tokenizer import small_tokenizer

from albert_keras.tasks.classification import (
    ClassificationRecipe,
    Examples,
    label_indices,
    label_names,
    read_examples,
    score,
    training_batches,
    write_predictions,
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'id\tlabel\ttext\n1\tyes\tSay "it"\n2\tno\t\n'),
        ("a.csv", 'label,text\nyes,"Say ""it"""\nno,\n'),
        ("a.jsonl", '{"label": "yes", "text": "Say \\"it\\""}\n\n{"text": "", "label": "no"}\n'),
    ],
)
def test_any_form_of_file_gives_texts_and_labels(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    assert read_examples(tmp_path / name) == Examples(['Say "it"', ""], ["yes", "no"])


def test_a_file_that_is_wrong_is_refused_by_name_and_line(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\nA\tyes\nB\n")
    with pytest.raises(ValueError, match="a.tsv, line 3: .*2 fields.*Received: 1"):
        read_examples(tmp_path / "a.tsv")


def test_labels_are_numbered_in_their_order_and_unknown_ones_named():
    examples = Examples(["", "", ""], ["b", "a", "b"])
    assert label_names(examples) == ["a", "b"]
    np.testing.assert_array_equal(label_indices(examples, ["a", "b"], "f"), [1, 0, 1])
    with pytest.raises(ValueError, match=r"dev.tsv has labels.*'b' \(2x\); known are a, c"):
        label_indices(examples, ["a", "c"], "dev.tsv")
    with pytest.raises(ValueError, match="two labels or more"):
        label_names(Examples([""], ["a"]))


def test_every_epoch_uses_every_example_once_in_another_order_and_any_step_can_be_the_first():
    tokenizer = small_tokenizer()
    texts = ["license " * (1 + row % 3) for row in range(10)]
    labels = np.arange(10, dtype=np.int32)
    recipe = ClassificationRecipe(max_length=16, batch_size=4, seed=7)
    batches_from = training_batches(texts, labels, tokenizer, recipe)
    batches = list(batches_from(0).take(10))
    order = np.concatenate([batch[1] for batch in batches])
    epochs = order.reshape(4, 10)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), labels)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    for inputs, row_labels in batches:
        expected = [len(tokenizer.encode(texts[row])) + 2 for row in row_labels.numpy()]
        np.testing.assert_array_equal(inputs["padding_mask"].numpy().sum(axis=1), expected)
    for start in (1, 3, 7):
        inputs, row_labels = next(iter(batches_from(start)))
        np.testing.assert_array_equal(row_labels, batches[start][1])
        np.testing.assert_array_equal(inputs["token_ids"], batches[start][0]["token_ids"])


def test_a_score_counts_what_is_right():
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], np.float32)
    found = score(probabilities, np.array([0, 1, 1, 1]), ["a", "b"])
    assert found["accuracy"] == 0.75 and found["examples"] == 4 and found["majority"] == 0.75
    assert found["confusion"] == [[1, 0], [1, 2]]


def test_predictions_are_one_line_an_example(tmp_path):
    examples = Examples(["two\twords", "x"], ["a", "b"])
    write_predictions(tmp_path / "p.tsv", examples, np.array([[0.9, 0.1], [0.6, 0.4]]), ["a", "b"])
    assert (tmp_path / "p.tsv").read_text().splitlines() == [
        "text\tlabel\tpredicted\tscore",
        "two words\ta\ta\t0.9000",
        "x\tb\ta\t0.6000",
    ]
