"""GLUE's official files, written here in their forms and as far as they are at hand."""

import csv
import doctest
import math
import shutil

import numpy as np
import pytest

from albert_keras.tasks import glue
from albert_keras.tasks.glue import GLUE_TASKS, glue_file, task_named, write_submission
from albert_keras.tasks.text_examples import TextColumns, TextExample, read_text_examples


def read_glue(name, split, folder, on_broken=None):
    """The examples of an official file, as `TextTask` reads them."""
    task = task_named(name)
    file, columns = glue_file(task, split, folder)
    return read_text_examples(
        file,
        columns,
        labels=task.labels or None,
        regression=task.regression,
        on_broken=on_broken,
    )


# The official files with | for a tab: task, split and file; the first lines; and => what the first
# example is. What is long stands in SHORT.
OFFICIAL = """
cola train train.tsv
gj04|1||She left.
ks08|0|*|Left "she the.
=> 0|She left.|-|1

cola dev dev.tsv
gj04|0|*|She 'left.
gj04|1||She left.
=> 0|She 'left.|-|0

cola test test.tsv
index|sentence
5|She left.
=> 5|She left.|-|-

sst-2 train train.tsv
sentence|label
sheer joy |1
=> 0|sheer joy |-|1

sst-2 dev dev.tsv
sentence|label
dull |0
=> 0|dull |-|0

sst-2 test test.tsv
index|sentence
7|dull
=> 7|dull|-|-

mrpc train train.tsv
Quality|#1 ID|#2 ID|#1 String|#2 String
1|702876|702977|He said " no .|He refused .
=> 0|He said " no .|He refused .|1

mrpc train msr_paraphrase_train.txt
Quality|#1 ID|#2 ID|#1 String|#2 String
0|702876|702977|He said "no.|He refused.
=> 0|He said "no.|He refused.|0

mrpc dev dev.tsv
Quality|#1 ID|#2 ID|#1 String|#2 String
1|702876|702977|He said " no .|He refused .
=> 0|He said " no .|He refused .|1

mrpc test test.tsv
index|#1 ID|#2 ID|#1 String|#2 String
12|702876|702977|He said " no .|He refused .
=> 12|He said " no .|He refused .|-

mrpc test msr_paraphrase_test.txt
Quality|#1 ID|#2 ID|#1 String|#2 String
1|702876|702977|He said "no.|He refused.
=> 0|He said "no.|He refused.|1

sts-b train train.tsv
index|STS-COLUMNS|sentence1|sentence2|score
3|STS-CELLS|A man sings.|A man is singing.|3.800
=> 3|A man sings.|A man is singing.|3.8

sts-b dev dev.tsv
index|STS-COLUMNS|sentence1|sentence2|score
3|STS-CELLS|A man sings.|A man is singing.|5
=> 3|A man sings.|A man is singing.|5.0

sts-b test test.tsv
index|STS-COLUMNS|sentence1|sentence2
3|STS-CELLS|A man sings.|A man is singing.
=> 3|A man sings.|A man is singing.|-

qqp train train.tsv
id|qid1|qid2|question1|question2|is_duplicate
133|213|214|Why?|"How?|0
=> 133|Why?|"How?|0

qqp dev dev.tsv
id|qid1|qid2|question1|question2|is_duplicate
201|213|214|Why?|Why so?|1
=> 201|Why?|Why so?|1

qqp test test.tsv
id|question1|question2
8|Why?|How?
=> 8|Why?|How?|-

mnli train train.tsv
index|MNLI-COLUMNS|sentence1|sentence2|label1|gold_label
5|MNLI-CELLS|Rain fell.|It was wet.|neutral|neutral
=> 5|Rain fell.|It was wet.|neutral

mnli dev_matched dev_matched.tsv
index|MNLI-COLUMNS|sentence1|sentence2|label1|label2|label3|label4|label5|gold_label
5|MNLI-CELLS|Rain fell.|It was wet.|neutral|neutral|entailment|entailment|entailment|entailment
=> 5|Rain fell.|It was wet.|entailment

mnli dev_mismatched dev_mismatched.tsv
index|MNLI-COLUMNS|sentence1|sentence2|label1|label2|label3|label4|label5|gold_label
5|MNLI-CELLS|Rain fell.|It was dry.|neutral|||||contradiction
=> 5|Rain fell.|It was dry.|contradiction

mnli test_matched test_matched.tsv
index|MNLI-COLUMNS|sentence1|sentence2
9|MNLI-CELLS|Rain fell.|It was wet.
=> 9|Rain fell.|It was wet.|-

mnli test_mismatched test_mismatched.tsv
index|MNLI-COLUMNS|sentence1|sentence2
9|MNLI-CELLS|Rain fell.|It was wet.
=> 9|Rain fell.|It was wet.|-

qnli train train.tsv
index|question|sentence|label
4|Who?|It rained.|not_entailment
=> 4|Who?|It rained.|not_entailment

qnli dev dev.tsv
index|question|sentence|label
4|Who?|Ann did.|entailment
=> 4|Who?|Ann did.|entailment

qnli test test.tsv
index|question|sentence
4|Who?|Ann did.
=> 4|Who?|Ann did.|-

rte train train.tsv
index|sentence1|sentence2|label
0|Ann ran.|Ann sat.|not_entailment
=> 0|Ann ran.|Ann sat.|not_entailment

rte dev dev.tsv
index|sentence1|sentence2|label
0|Ann ran.|Ann moved.|entailment
=> 0|Ann ran.|Ann moved.|entailment

rte test test.tsv
index|sentence1|sentence2
0|Ann ran.|Ann moved.
=> 0|Ann ran.|Ann moved.|-

wnli train train.tsv
index|sentence1|sentence2|label
0|It hit it.|The car hit it.|1
=> 0|It hit it.|The car hit it.|1

wnli dev dev.tsv
index|sentence1|sentence2|label
0|It hit it.|The car hit it.|0
=> 0|It hit it.|The car hit it.|0

wnli test test.tsv
index|sentence1|sentence2
0|It hit it.|The car hit it.
=> 0|It hit it.|The car hit it.|-

ax test diagnostic.tsv
index|sentence1|sentence2
0|Ann ran.|Ann moved.
=> 0|Ann ran.|Ann moved.|-

ax test AX.tsv
index|sentence1|sentence2
0|Ann ran.|Ann moved.
=> 0|Ann ran.|Ann moved.|-
"""
SHORT = {
    "STS-COLUMNS": "genre|filename|year|old_index|source1|source2",
    "STS-CELLS": "main-captions|MSRvid|2012test|0001|none|none",
    "MNLI-COLUMNS": "promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse"
    "|sentence1_parse|sentence2_parse",
    "MNLI-CELLS": "63735|63735n|slate|( a )|( b )|(ROOT a)|(ROOT b)",
}


def official_files():
    text = OFFICIAL.strip()
    for short, whole in SHORT.items():
        text = text.replace(short, whole)
    for block in text.split("\n\n"):
        head, *lines, first = block.splitlines()
        task, split, name = head.split()
        first = [None if field == "-" else field for field in first[3:].split("|")]
        if task == "sts-b" and first[3]:
            first[3] = float(first[3])
        yield task, split, name, [line.replace("|", "\t") for line in lines], first


# The order of the original's processors, the leaderboard's metrics and its files.
LABELS = {
    "0 1": "cola sst-2 mrpc qqp wnli",
    "contradiction entailment neutral": "mnli ax",
    "entailment not_entailment": "qnli rte",
    "": "sts-b",
}
LABELS_OF = {task: key.split() for key, tasks in LABELS.items() for task in tasks.split()}
METRICS = {
    "matthews": "cola ax",
    "accuracy": "sst-2 mnli qnli rte wnli",
    "accuracy f1": "mrpc qqp",
    "pearson spearman": "sts-b",
}
SUBMISSIONS = {
    ("cola", "test"): "CoLA.tsv",
    ("sst-2", "test"): "SST-2.tsv",
    ("mrpc", "test"): "MRPC.tsv",
    ("sts-b", "test"): "STS-B.tsv",
    ("qqp", "test"): "QQP.tsv",
    ("mnli", "test_matched"): "MNLI-m.tsv",
    ("mnli", "test_mismatched"): "MNLI-mm.tsv",
    ("qnli", "test"): "QNLI.tsv",
    ("rte", "test"): "RTE.tsv",
    ("wnli", "test"): "WNLI.tsv",
    ("ax", "test"): "AX.tsv",
}


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not doctest.testmod(glue).failed


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_the_official_files_give_their_examples(tmp_path, mark, end, last):
    for task, split, name, lines, first in official_files():
        folder = tmp_path / f"{task}-{split}-{name}"
        folder.mkdir()
        content = mark + end.join(lines) + end * last
        (folder / name).write_text(content, encoding="utf-8", newline="")
        examples = list(read_glue(task, split, folder))
        header = not (task == "cola" and split != "test")
        assert examples[0] == TextExample(*first, line=1 + header), folder
        assert len(examples) == len(lines) - header


def test_every_split_of_every_task_is_tested_above():
    splits = {(name, split) for name, task in GLUE_TASKS.items() for split in task.splits}
    assert {(task, split) for task, split, *_ in official_files()} == splits
    assert len(GLUE_TASKS) == 10 and len(splits) == 30


def test_labels_and_metrics_are_the_official_ones():
    metrics = {task: key.split() for key, tasks in METRICS.items() for task in tasks.split()}
    assert {name: [*task.labels] for name, task in GLUE_TASKS.items()} == LABELS_OF
    assert {name: [*task.metrics] for name, task in GLUE_TASKS.items()} == metrics
    assert [name for name, task in GLUE_TASKS.items() if task.regression] == ["sts-b"]
    assert {task.model_task for task in GLUE_TASKS.values()} == {None, "mnli"}
    assert GLUE_TASKS["ax"].model_task == "mnli"


def test_mnli_has_two_of_dev_and_test_and_the_matched_ones_come_first():
    assert GLUE_TASKS["mnli"].splits_of("dev") == ("dev_matched", "dev_mismatched")
    assert GLUE_TASKS["mnli"].splits_of("test") == ("test_matched", "test_mismatched")
    assert GLUE_TASKS["ax"].splits_of("dev") == ()


def test_the_files_of_glue_s_own_script_come_before_those_it_was_made_from(tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (tmp_path / "msr_paraphrase_train.txt").write_text(header + "0\t1\t2\tall\tall\n")
    (tmp_path / "train.tsv").write_text(header + "0\t1\t2\twithout dev\twithout dev\n")
    assert next(read_glue("mrpc", "train", tmp_path)).text == "without dev"


def test_questions_of_qqp_that_are_cut_at_a_line_end_are_told_of(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = '1\t2\t3\tWhy?\tHow?\t0\n4\t5\t6\t"What is\nthis?"\tWhat?\t1\n7\t8\t9\tA?\tB?\t1\n'
    (tmp_path / "train.tsv").write_text(header + rows)
    errors = []
    examples = list(read_glue("qqp", "train", tmp_path, on_broken=errors.append))
    assert [(example.id, example.label) for example in examples] == [("1", "0"), ("7", "1")]
    assert len(errors) == 2 and "line 3" in str(errors[0]) and "line 4" in str(errors[1])
    with pytest.raises(ValueError, match="train.tsv, line 3: every line must have the 6 fields"):
        list(read_glue("qqp", "train", tmp_path))


def test_a_label_that_the_task_has_not_is_refused(tmp_path):
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\tA\tB\tneutral\n")
    with pytest.raises(ValueError, match="dev.tsv, line 2: .*one of entailment, not_entailment"):
        list(read_glue("rte", "dev", tmp_path))
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tsentence2\tscore\n0\tA\tB\tmuch\n")
    with pytest.raises(ValueError, match="dev.tsv, line 2: a label must be a finite number"):
        list(read_glue("sts-b", "dev", tmp_path))


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="one of cola, .*, ax. Received: 'xnli'"):
        next(read_glue("xnli", "train", tmp_path))
    with pytest.raises(ValueError, match="splits of mnli are train, dev_matched.* Received: 'dev'"):
        next(read_glue("mnli", "dev", tmp_path))
    with pytest.raises(
        ValueError, match="in train.tsv or msr_paraphrase_train.txt, in the folder MRPC .*without"
    ):
        next(read_glue("mrpc", "train", tmp_path))


@pytest.mark.parametrize(("task", "split"), SUBMISSIONS)
def test_a_submission_has_the_leaderboard_s_form(tmp_path, task, split):
    expected = LABELS_OF[task] or ["0.000", "1.000"]
    predictions = np.arange(len(expected))
    ids = [str(10 + number) for number in predictions]
    path = write_submission(tmp_path, task, split, ids, predictions)
    assert path == tmp_path / SUBMISSIONS[task, split]
    rows = [f"{number}\t{answer}\n" for number, answer in zip(ids, expected, strict=True)]
    assert path.read_text() == "index\tprediction\n" + "".join(rows)


def test_only_test_sets_have_submissions():
    found = {
        (name, split): part.submission
        for name, task in GLUE_TASKS.items()
        for split, part in task.splits.items()
        if part.submission
    }
    assert found == SUBMISSIONS


def test_the_scores_of_sts_b_are_cut_to_what_is_possible(tmp_path):
    scores = np.array([-0.3, 5.7, 2.71828, 4.9996, 0.0004], np.float32)
    path = write_submission(tmp_path, "sts-b", "test", map(str, range(5)), scores)
    answers = [line.split("\t")[1] for line in path.read_text().splitlines()[1:]]
    assert answers == ["0.000", "5.000", "2.718", "5.000", "0.000"]


@pytest.mark.parametrize(
    ("task", "split", "ids", "predictions", "message"),
    [
        ("rte", "dev", ["0"], [1], "Only a test set is sent .* Received: rte, dev"),
        ("rte", "test", ["0", "1"], [1], "one prediction. Received: 2 ids and 1 predictions"),
        ("rte", "test", ["0"], [2], "from 0 to 1. Received: 2 for example 0"),
        ("rte", "test", ["0"], [-1], "from 0 to 1. Received: -1"),
        ("rte", "test", ["0"], [0.5], "from 0 to 1. Received: 0.5"),
        ("sts-b", "test", ["7"], [math.nan], "finite number. Received: nan for example 7 of sts-b"),
    ],
)
def test_predictions_that_cannot_be_sent_are_refused(
    tmp_path, task, split, ids, predictions, message
):
    with pytest.raises(ValueError, match=message):
        write_submission(tmp_path, task, split, ids, predictions)
    assert not list(tmp_path.iterdir())


REAL = [
    ("glue/QNLI-dev-2000.tsv", "qnli", "dev", "dev.tsv", ["question", "sentence", "label"]),
    ("glue/WNLI-train.tsv", "wnli", "train", "train.tsv", ["sentence1", "sentence2", "label"]),
    ("glue/WNLI-dev.tsv", "wnli", "dev", "dev.tsv", ["sentence1", "sentence2", "label"]),
    ("glue/WNLI-test.tsv", "wnli", "test", "test.tsv", ["sentence1", "sentence2", None]),
    *(
        ("nli/MED.tsv", "mnli", split, f"{split}.tsv", ["sentence1", "sentence2", "gold_label"])
        for split in ("train", "dev_matched", "dev_mismatched")
    ),
]


@pytest.mark.parametrize(("source", "task", "split", "name", "columns"), REAL)
def test_real_files_are_read_whole(data_folder, tmp_path, source, task, split, name, columns):
    shutil.copy(data_folder / source, tmp_path / name)
    with open(data_folder / source, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    expected = [(row["index"], *map(row.get, columns)) for row in rows]
    assert [example[:4] for example in read_glue(task, split, tmp_path)] == expected
    assert len(expected) > 70


def test_a_real_file_of_other_columns_is_read_as_one_s_own(data_folder):
    columns = TextColumns("Premise", "Hypothesis", "Label")
    examples = list(read_text_examples(data_folder / "nli/conj_dev.tsv", columns))
    assert len(examples) == 623
    assert {example.label for example in examples} == {"entailment", "neutral", "contradiction"}
    assert examples[0].text.startswith("Historically, the Commission")
