"""SQuAD's files: what they may hold, where answers are, and what is refused by name."""

import json

import pytest

from albert_keras.tasks.squad.reading import Answer, check_unique_ids, read_squad

pytestmark = pytest.mark.both_kerases


def write(folder, *rows, context="Ada met Ada."):
    path = folder / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": rows}]}]}))
    return path


def row(**fields):
    return {"id": "q1", "question": "Who?", "answers": [], **fields}


def answer(text, start):
    return [{"text": text, "answer_start": start}]


def test_a_file_of_1_1(tmp_path):
    content = {
        "version": "1.1",
        "data": [
            {
                "title": "A",
                "paragraphs": [
                    {"context": "Ada wrote.", "qas": [row(answers=answer("Ada", 0))]},
                    {
                        "context": "日本の首都は東京。",
                        "qas": [
                            row(id=7, question="首都は？", answers=answer("東京", 6) * 2),
                            row(id="q3", question="", answers=answer("首都", 3)),
                        ],
                    },
                ],
            }
        ],
    }
    path = tmp_path / "train.json"
    path.write_text("\ufeff" + json.dumps(content), encoding="utf-8")
    questions, *problems = read_squad(path)
    assert [question.id for question in questions] == ["q1", "7", "q3"]
    assert [question.question for question in questions] == ["Who?", "首都は？", ""]
    assert questions[1].answers == (Answer("東京", 6), Answer("東京", 6))
    assert questions[1].context is questions[2].context
    assert not any(question.is_impossible for question in questions)
    assert problems == [[], [], []]


@pytest.mark.parametrize(
    "fields,impossible,labelled",
    [
        ({"answers": [], "is_impossible": True}, True, True),
        ({"answers": []}, True, True),  # as the official score has it
        ({"answers": [], "is_impossible": False}, False, False),
        ({}, False, False),
        ({"answers": answer("Ada", 0), "is_impossible": False}, False, True),
        ({"is_impossible": True, "plausible_answers": answer("Ada", 0)}, True, True),
    ],
)
def test_questions_without_answer_and_those_of_a_test_file(tmp_path, fields, impossible, labelled):
    path = write(tmp_path, {"id": "q1", "question": "Who?", **fields})
    (question,) = read_squad(path).questions
    assert (question.is_impossible, question.is_labelled) == (impossible, labelled)


@pytest.mark.parametrize(
    "text,start,found,problem",
    [
        ("Ada", 0, 0, None),
        ("Ada", 8, 8, None),
        ("Ada", 1, 0, "moved"),
        ("Ada", 7, 8, "moved"),
        ("Ada", 4, 0, "moved"),  # as near as 8
        ("Ada", -5, 0, "moved"),
        ("Ada", 999, 8, "moved"),
        ("Bob", 0, None, "unplaced"),
        ("ada", 0, None, "unplaced"),
        ("", 0, None, "unplaced"),
        (" ", 3, None, "unplaced"),
    ],
)
def test_an_answer_that_is_not_where_the_file_says(tmp_path, text, start, found, problem):
    file = read_squad(write(tmp_path, row(answers=answer(text, start))))
    assert file.questions[0].answers == (Answer(text, found),)
    assert {name: getattr(file, name) for name in ("moved", "unplaced")} == {
        "moved": ["q1"] if problem == "moved" else [],
        "unplaced": ["q1"] if problem == "unplaced" else [],
    }


def test_ids_that_recur_are_read_and_named_and_refused_where_ids_count(tmp_path):
    file = read_squad(write(tmp_path, row(), row(id="q2"), row(question="When?")))
    assert [question.id for question in file.questions] == ["q1", "q2", "q1"]
    assert file.repeated == ["q1"]
    with pytest.raises(ValueError, match="id of its own.*1 ids of several, 'q1'"):
        check_unique_ids(file.questions)


@pytest.mark.parametrize(
    "content,reason",
    [
        (b'{"data": [', r"dev.json is damaged or cut off"),
        (b"[]", "dev.json must be a JSON object"),
        (b'{"version": "1.1"}', "dev.json must have the keys data"),
        (b'{"data": {}}', "dev.json: `data` must be a list"),
        (b'{"data": []}', "must have one.*dev.json"),
        (b'{"data": [3]}', r"dev.json: data\[0\] must be a JSON object"),
        (b'{"data": [{}]}', r"dev.json: data\[0\] must have the keys paragraphs"),
        (b'{"data": [{"paragraphs": [{"qas": []}]}]}', r"paragraphs\[0\] must have .*context"),
        (b'{"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}', "`context` must be a text"),
    ],
)
def test_a_file_of_another_layout_is_refused_with_the_place(tmp_path, content, reason):
    (tmp_path / "dev.json").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_squad(tmp_path / "dev.json")


@pytest.mark.parametrize(
    "broken,reason",
    [
        (
            {"question": "Who?"},
            r"dev.json: data\[0\].paragraphs\[0\].qas\[1\] must have the keys id",
        ),
        ([], r"qas\[1\] must be a JSON object"),
        (row(id=True), r"qas\[1\]: `id` must be a text. Received: True"),
        ({"id": "q2"}, "dev.json, question 'q2' must have the keys question"),
        (row(id="q2", question=None), "question 'q2': `question` must be a text. Received: None"),
        (row(id="q2", answers="Ada"), "question 'q2': `answers` must be a list"),
        (row(id="q2", answers=["Ada"]), "question 'q2', an answer must be a JSON object"),
        (row(id="q2", answers=[{"text": "Ada"}]), "'q2', an answer must have .*answer_start"),
        (row(id="q2", answers=answer(3, 0)), "question 'q2': `text` must be a text"),
        (row(id="q2", answers=answer("Ada", "0")), "'q2': `answer_start` must be a whole number"),
        (row(id="q2", answers=answer("Ada", 0.0)), "'q2': `answer_start` must be a whole number"),
        (row(id="q2", is_impossible="yes"), "'q2': `is_impossible` must be true or false"),
        (
            row(id="q2", is_impossible=True, answers=answer("Ada", 0)),
            "must have no `answers`.*question 'q2' with 'Ada'",
        ),
    ],
)
def test_a_broken_question_is_refused_by_file_and_id(tmp_path, broken, reason):
    with pytest.raises(ValueError, match=reason):
        read_squad(write(tmp_path, row(), broken))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="must be there.*none.json"):
        read_squad(tmp_path / "none.json")


def test_the_given_files(data_folder):
    folder = data_folder / "squad"
    counts = {}
    for path in folder.glob("*.json"):
        questions, *problems = read_squad(path)
        counts[path.stem] = (len(questions), sum(q.is_impossible for q in questions), problems)
    assert counts == {
        "squad11_20articles": (4639, 0, [[], [], []]),
        # Two questions of this sample, one of them impossible, share an id.
        "squad2_sample": (6, 1, [[], [], ["5733be284776f41900661182"]]),
        **{f"xquad.{language}": (1190, 0, [[], [], []]) for language in ("en", "de", "zh")},
    }
