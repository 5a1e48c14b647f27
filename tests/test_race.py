"""RACE: its official files, files of one's own, rows as the original makes them, and the score."""

import json

import numpy as np
import pytest
import tensorflow as tf
from small_tokenizer import small_tokenizer

from albert_keras import build_albert
from albert_keras.task_models import build_multiple_choice
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.finetuning_task import Answered, Encoded
from albert_keras.tasks.length_batches import Predictor, length_batches
from albert_keras.tasks.race.choices import (
    choice_accuracy,
    choice_loss,
    question_blocks,
    with_option,
)
from albert_keras.tasks.race.reading import Question, question_files, read_questions
from albert_keras.tasks.race.task import RaceTask

MIDDLE = {
    "answers": ["B", "D"],
    "options": [["red", "blue", "green", "black"], ["one", "two", "three", "four"]],
    "questions": ["The house is _ .", "How many doors are there?"],
    "article": "The house\nis blue. It has four doors.",
    "id": "middle8.txt",
}
HIGH = {
    "answers": ["A"],
    "options": [["yes", "no", "maybe", "A"]],
    "questions": ["Is it?"],
    "article": "It is.",
    "id": "high10.txt",
}
EXPECTED = [
    Question(
        "middle8.txt-0",
        MIDDLE["article"],
        "The house is _ .",
        tuple(MIDDLE["options"][0]),
        1,
        "middle",
    ),
    Question(
        "middle8.txt-1",
        MIDDLE["article"],
        MIDDLE["questions"][1],
        tuple(MIDDLE["options"][1]),
        3,
        "middle",
    ),
    Question("high10.txt-0", "It is.", "Is it?", ("yes", "no", "maybe", "A"), 0, "high"),
]


def write_archive(folder, whole=False):
    """RACE/dev as in the archive: a passage a file; or the lines of all in all.txt."""
    for level, row in (("middle", MIDDLE), ("high", HIGH)):
        (folder / level).mkdir(parents=True)
        # Of the official files each is one line without an end.
        name, end = ("all.txt", "\n") if whole else (row["id"].removeprefix(level), "")
        (folder / level / name).write_text(json.dumps(row) + end)
    return folder


@pytest.mark.parametrize("whole", [False, True])
def test_both_forms_of_the_archive_give_middle_then_high(tmp_path, whole):
    assert list(read_questions(write_archive(tmp_path / "dev", whole))) == EXPECTED
    assert list(read_questions(tmp_path / "dev" / "high")) == EXPECTED[2:]


def test_an_all_txt_stands_for_its_folder(tmp_path):
    write_archive(tmp_path)
    (tmp_path / "middle" / "all.txt").write_text(json.dumps(MIDDLE) + "\n")
    assert list(read_questions(tmp_path)) == EXPECTED


def test_a_passage_may_be_written_over_several_lines(tmp_path):
    (tmp_path / "1.txt").write_text(json.dumps(HIGH, indent=1))
    (question,) = read_questions(tmp_path)
    assert question == EXPECTED[2]._replace(level=None)


def own(**changes):
    return {"context": "It is.", "question": "Is it?", "options": ["yes", "no", "B"]} | changes


@pytest.mark.parametrize("answer,place", [("A", 0), ("C", 2), (1, 1), ("no", 1), (0, 0)])
def test_answers_of_ones_own_are_letters_places_or_texts(tmp_path, answer, place):
    file = tmp_path / "own.jsonl"
    rows = [own(answer=answer), own(answer=0, id=7, options=["x", "y"])]
    file.write_text("\n\n".join(map(json.dumps, rows)))
    first, second = read_questions(file)
    assert first == Question("1", "It is.", "Is it?", ("yes", "no", "B"), place, None)
    assert (second.id, second.options, second.answer) == ("7", ("x", "y"), 0)


def test_answers_may_be_missing_where_nobody_needs_them(tmp_path):
    file = tmp_path / "test.jsonl"
    file.write_text(json.dumps(own()))
    assert next(read_questions(file, needs_answers=False)).answer is None
    with pytest.raises(ValueError, match="test.jsonl, line 1: answer must be.*None"):
        list(read_questions(file))


@pytest.mark.parametrize(
    "row,reason",
    [
        (own(answer="D"), "letters A to C, a place from 0 to 2.*'D'"),
        (own(answer="B"), r"'B', which could be any of the places \[1, 2\]"),
        (own(answer=3), "place from 0 to 2.*Received: 3"),
        (own(answer=True), "Received: True"),
        (own(answer="a"), "Received: 'a'"),
        (own(answer=0, options=["x"]), r"options must be a list of two or more.*\['x'\]"),
        (own(answer=0, options=["x", 2]), r"options\[1\] must be a text. Received: 2"),
        (own(answer=0, context=None), "context must be a text. Received: None"),
        (own(answer=0, id="a\tb"), "id must be a line of text"),
        (own(answer=0, id="q\ud83d"), "id must be Unicode. Received: the lone surrogate"),
        (own(answer=0, context="\udc00"), "context must be Unicode. Received: the lone surrogate"),
        ({"question": "", "options": []}, "must have the keys context.*without context"),
        ([], "must be a JSON object"),
        (MIDDLE | {"answers": ["B", "E"]}, r"answers\[1\] must be one of A, B, C, D.*'E'"),
        (MIDDLE | {"answers": ["B"]}, "lists of one length.*'options': 2, 'answers': 1"),
        (MIDDLE | {"options": [["a", "b"], [1, 2]]}, r"options\[1\]\[0\] must be a text"),
        (MIDDLE | {"questions": ["", 5]}, r"questions\[1\] must be a text. Received: 5"),
        ({k: v for k, v in MIDDLE.items() if k != "id"}, "without id"),
    ],
)
def test_what_is_wrong_is_named_by_file_line_and_key(tmp_path, row, reason):
    (tmp_path / "all.txt").write_text("\n" + json.dumps(row))
    with pytest.raises(ValueError, match="all.txt, line 2.*" + reason):
        list(read_questions(tmp_path))


def test_a_broken_file_and_a_folder_without_any_are_refused(tmp_path):
    with pytest.raises(ValueError, match="middle/ and high/. Received: .*where there are none"):
        question_files(tmp_path)
    (tmp_path / "2.txt").write_text('{"article": "It')
    with pytest.raises(ValueError, match="2.txt is damaged or cut off"):
        list(read_questions(tmp_path))


def test_the_option_takes_the_place_of_every_underscore():
    assert with_option("He _ and _ .", " ran ") == "He ran and ran ."
    assert with_option("Who\n ran?", "Tom  Jones") == "Who ran? Tom Jones"


def row(rows, place):
    return rows.ids[rows.splits[place] : rows.splits[place + 1]].tolist()


def test_rows_are_those_of_the_original():
    """Cut here by hand as race_utils.py does: a question's last 128, an article's first pieces."""
    tokenizer = small_tokenizer()
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    long = Question("x", "source code " * 300, "the work " * 100, ("it", "is", "of"), None, None)
    questions = [*EXPECTED, long]
    rows = EncodedRows.concatenated(question_blocks(questions, tokenizer, 160))
    assert rows.choices.tolist() == [4, 4, 4, 3]
    assert rows.targets["logits"].tolist() == [1, 3, 0, -1]
    place = 0
    for question in questions:
        article = tokenizer.encode(question.article)
        for option in question.options:
            if "_" in question.question:
                text = question.question.replace("_", option)
            else:
                text = question.question + " " + option
            ending = tokenizer.encode(text)[-128:]
            context = article[: 160 - 3 - len(ending)]
            assert row(rows, place) == [cls, *context, sep, *ending, sep]
            assert rows.second_starts[place] == len(context) + 2
            place += 1
    assert place == len(rows.lengths) and rows.lengths.max() == 160


def test_a_row_shorter_than_the_question_has_no_room_for_the_article():
    long = Question("x", "source code", "the work " * 100, ("it", "is"), 0, None)
    tokenizer = small_tokenizer()
    rows = next(question_blocks([long], tokenizer, 20))
    ending = tokenizer.encode("the work " * 100 + "it")[-17:]
    assert row(rows, 0) == [tokenizer.cls_id, tokenizer.sep_id, *ending, tokenizer.sep_id]


@pytest.mark.both_kerases
def test_a_choice_that_is_none_never_wins_and_costs_nothing():
    marks = tf.constant([[0, 1, -1], [1, 0, 0]])
    logits = tf.constant([[1.0, 2.0, 99.0], [1.0, 2.0, 3.0]])
    expected = [
        np.log(np.exp(1) + np.exp(2)) - 2,
        np.log(np.exp(1) + np.exp(2) + np.exp(3)) - 1,
    ]
    np.testing.assert_allclose(choice_loss(marks, logits), expected, rtol=1e-5)
    np.testing.assert_array_equal(choice_accuracy(marks, logits), [1, 0])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = choice_loss(marks, logits)
    gradient = tape.gradient(loss, logits).numpy()
    assert gradient[0, 2] == 0 and np.isfinite(gradient).all()


def finished(questions, logits, folder=None):
    """Scores and files of these logits, in two blocks."""
    task = RaceTask()
    blocks = []
    for some in (slice(1), slice(1, None)):
        outputs = iter([{"logits": np.array(one, np.float32)} for one in logits[some]])
        answers = task.answers(Encoded(questions[some], None), outputs)
        blocks.append(Answered(questions[some], answers))
    return task.finish("RACE/dev", blocks, folder)


def test_the_score_has_middle_and_high_apart():
    logits = [[0, 1, 0, 0], [3, 0, 0, 2.0], [1, 0, 0, 0, 9]]
    found = finished(EXPECTED, logits)
    assert found["score"] == found["accuracy"] == pytest.approx(2 / 3) and found["examples"] == 3
    assert found["middle"]["accuracy"] == 0.5 and found["middle"]["examples"] == 2
    assert found["high"]["accuracy"] == 1.0 and found["high"]["examples"] == 1
    own_questions = [question._replace(level=None) for question in EXPECTED]
    assert set(finished(own_questions, logits)) == {
        *("score", "accuracy", "accuracy_interval", "examples")
    }
    unknown = [EXPECTED[0]._replace(answer=None), *EXPECTED[1:]]
    assert finished(unknown, logits) == {}


def test_choices_are_written_in_order_with_their_ids(tmp_path):
    questions = [EXPECTED[0], EXPECTED[2]._replace(answer=None, options=("x", "y"))]
    finished(questions, [[0, np.log(7), 0, 0], [0.0, 0.0, 5.0]], tmp_path)
    assert (tmp_path / "predictions.tsv").read_text().splitlines() == [
        "id\tlabel\tpredicted\tscore",
        "middle8.txt-0\tB\tB\t0.7000",
        "high10.txt-0\t\tA\t0.5000",
    ]


@pytest.mark.both_kerases
def test_a_model_learns_the_answers_of_questions_with_two_to_four_options():
    tokenizer = small_tokenizer()
    options = ["it is", "of the", "source", "work"]
    questions = [
        Question(str(n), "a license", "the _", tuple(np.roll(options, n)[: 2 + n % 3]), None, None)
        for n in range(12)
    ]
    # The right one is "of the", where there is none "it is", else the first.
    questions = [
        question._replace(
            answer=next(
                question.options.index(option)
                for option in ("of the", "it is", question.options[0])
                if option in question.options
            )
        )
        for question in questions
    ]
    rows = EncodedRows.concatenated(question_blocks(questions, tokenizer, 32))
    tf.keras.utils.set_random_seed(1)
    model = build_multiple_choice(build_albert("tiny", vocab_size=tokenizer.vocab_size), dropout=0)
    model.compile(
        tf.keras.optimizers.Adam(3e-3),
        loss={"logits": choice_loss},
        metrics={"logits": [choice_accuracy]},
    )
    batches = length_batches(rows, batch_size=6, max_length=32)(0)
    history = model.fit(batches, steps_per_epoch=60, epochs=2, verbose=0, shuffle=False).history
    assert history["loss"][-1] < history["loss"][0]
    answers = Predictor(model, batch_size=5, max_length=32)(rows)
    assert finished(questions, [answer["logits"] for answer in answers])["accuracy"] == 1.0
