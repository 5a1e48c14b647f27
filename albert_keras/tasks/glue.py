"""GLUE: the official files of its tasks and of the diagnostics, their scores, and submissions."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from albert_keras.data.storage import exists
from albert_keras.new_file import write_file
from albert_keras.tasks.text_examples import TextColumns

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
NLI = ("contradiction", "entailment", "neutral")


@dataclasses.dataclass(frozen=True)
class GlueSplit:
    """One part of a task's data.

    Args:
        files: names of the file that holds it, the preferred one first, each with its columns.
        submission: name of the file for the leaderboard; None for a part that is not sent there.
    """

    files: Mapping[str, TextColumns]
    submission: str | None = None


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """A task of GLUE.

    Args:
        name: of the task, in small letters, as the original code has it.
        folder: of the official archive.
        labels: names of the classes in the order of the model's outputs, which is that of the
            original code; none for a regression.
        metrics: names of the official ones, see `metrics.scores`.
        splits: "train", "dev" and "test"; of MNLI "dev_matched", "dev_mismatched" and so on, the
            deciding one first.
        model_task: the task whose model predicts this one, which has no training data; else None.
    """

    name: str
    folder: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    splits: Mapping[str, GlueSplit]
    model_task: str | None = None

    @property
    def regression(self) -> bool:
        """Whether labels are numbers."""
        return not self.labels

    def splits_of(self, kind: str) -> tuple[str, ...]:
        """The names of the splits of a kind, "dev" or "test".

        >>> GLUE_TASKS["mnli"].splits_of("dev")
        ('dev_matched', 'dev_mismatched')
        """
        return tuple(name for name in self.splits if name.partition("_")[0] == kind)

    def split_named(self, name: str) -> str:
        """A split, or the deciding one of a kind, "dev" or "test".

        >>> GLUE_TASKS["mnli"].split_named("dev")
        'dev_matched'
        """
        of_kind = self.splits_of(name)
        if name in self.splits or not of_kind:
            _split_named(self, name)  # refuses a name that there is not
            return name
        return of_kind[0]

    def columns_of(self, split: str, file: str | Path) -> TextColumns:
        """Where a file of this split has what: as that of its name has it, or else as most have."""
        files = _split_named(self, self.split_named(split)).files
        return files.get(Path(str(file)).name, next(iter(files.values())))

    def has_files(self, split: str, folder: str | Path) -> bool:
        """Whether an official file of this split is in a folder."""
        return _found(self, split, folder) is not None


def write_submission(
    folder: str | Path,
    task: str,
    split: str,
    ids: Iterable[str],
    predictions: Iterable[float],
) -> Path:
    """Writes the file for the leaderboard: a line for each example, its index and its prediction.

    Args:
        folder: an existing one, where the file gets its official name.
        task: a key of `GLUE_TASKS`.
        split: of the task's splits, one that has a submission.
        ids: of the examples, in the order of the test file.
        predictions: for each the number of a class, or of STS-B the score, which is cut to the
            0 to 5 that are possible.

    Returns:
        The path of the file.

    Raises:
        ValueError: an unknown task, a split that is not sent, not as many predictions as ids, or a
            prediction that is no class or is not finite.

    Example:

    >>> path = write_submission(".", "rte", "test", ["0", "1"], [1, 0])
    >>> path.name, path.read_text().splitlines()
    ('RTE.tsv', ['index\\tprediction', '0\\tnot_entailment', '1\\tentailment'])

    Reference:
        https://gluebenchmark.com/faq
    """
    glue_task = task_named(task)
    name = _split_named(glue_task, split).submission
    if name is None:
        raise ValueError(f"Only a test set is sent to the leaderboard. Received: {task}, {split}.")
    ids, predictions = list(ids), list(predictions)
    if len(ids) != len(predictions):
        raise ValueError(
            "Every example needs one prediction. Received: "
            f"{len(ids)} ids and {len(predictions)} predictions."
        )
    lines = ["index\tprediction\n"]
    for identifier, prediction in zip(ids, predictions, strict=True):
        lines.append(f"{identifier}\t{_answer(glue_task, identifier, prediction)}\n")
    path = Path(folder, name)
    write_file(path, "".join(lines))
    return path


def task_named(name: str) -> GlueTask:
    """The task of that name.

    Raises:
        ValueError: there is none.
    """
    if name in GLUE_TASKS:
        return GLUE_TASKS[name]
    raise ValueError(f"A task of GLUE is one of {', '.join(GLUE_TASKS)}. Received: {name!r}.")


def _answer(task, identifier, prediction):
    if not math.isfinite(prediction):
        raise ValueError(
            f"A prediction must be a finite number. Received: {prediction} for example "
            f"{identifier} of {task.name}."
        )
    if task.regression:
        return f"{min(max(float(prediction), 0.0), 5.0):.3f}"
    if prediction not in range(len(task.labels)):
        raise ValueError(
            f"A prediction of {task.name} must be from 0 to {len(task.labels) - 1}. Received: "
            f"{prediction} for example {identifier}."
        )
    return task.labels[int(prediction)]


def _split_named(task, name):
    if name in task.splits:
        return task.splits[name]
    raise ValueError(f"The splits of {task.name} are {', '.join(task.splits)}. Received: {name!r}.")


def glue_file(task: GlueTask, split: str, folder: str | Path) -> tuple[str, TextColumns]:
    """The official file of a split in a task's folder, and its columns.

    Some copies of QQP have questions with a line end inside, whose halves are rows with too few
    fields. The original code leaves them out in silence; `read_text_examples` tells of each.

    Raises:
        ValueError: the folder has none.
    """
    found = _found(task, split, folder)
    if found is None:
        names = " or ".join(_split_named(task, split).files)
        raise ValueError(
            f"The {split} examples of {task.name} are in {names}, in the folder {task.folder} of "
            f"the official archive. Received: {folder}, without."
        )
    return found


def _found(task, split, folder):
    for name, columns in _split_named(task, split).files.items():
        path = f"{str(folder).rstrip('/')}/{name}"  # a Path would take a slash from gs://
        if exists(path):
            return path, columns
    return None


def _splits(folder, labelled, unlabelled=None):
    """The parts of a task whose files are named as most are; its test set has no labels."""
    unlabelled = unlabelled or dataclasses.replace(labelled, label=None)
    return {
        "train": GlueSplit({"train.tsv": labelled}),
        "dev": GlueSplit({"dev.tsv": labelled}),
        "test": GlueSplit({"test.tsv": unlabelled}, f"{folder}.tsv"),
    }


def _task(folder, labels, metrics, *columns):
    return GlueTask(folder.lower(), folder, labels, metrics, _splits(folder, *columns))


def _mrpc():
    labelled = TextColumns("#1 String", "#2 String", "Quality")
    splits = _splits("MRPC", labelled, TextColumns("#1 String", "#2 String", None, "index"))
    # What GLUE's script makes its files from. All of the first is for training: the script takes
    # the dev set out of it. The second is in the order of test.tsv, and has the labels.
    splits["train"].files["msr_paraphrase_train.txt"] = labelled
    splits["test"].files["msr_paraphrase_test.txt"] = labelled
    return GlueTask("mrpc", "MRPC", BINARY, ("accuracy", "f1"), splits)


def _mnli():
    labelled = TextColumns("sentence1", "sentence2", "gold_label", "index")
    unlabelled = dataclasses.replace(labelled, label=None)
    splits = {
        "train": GlueSplit({"train.tsv": labelled}),
        "dev_matched": GlueSplit({"dev_matched.tsv": labelled}),
        "dev_mismatched": GlueSplit({"dev_mismatched.tsv": labelled}),
        "test_matched": GlueSplit({"test_matched.tsv": unlabelled}, "MNLI-m.tsv"),
        "test_mismatched": GlueSplit({"test_mismatched.tsv": unlabelled}, "MNLI-mm.tsv"),
    }
    return GlueTask("mnli", "MNLI", NLI, ("accuracy",), splits)


def _diagnostics():
    columns = TextColumns("sentence1", "sentence2", None, "index")
    files = {"diagnostic.tsv": columns, "AX.tsv": columns}
    splits = {"test": GlueSplit(files, "AX.tsv")}
    return GlueTask("ax", "diagnostic", NLI, ("matthews",), splits, model_task="mnli")


_PAIR = TextColumns("sentence1", "sentence2", "label", "index")
_SENTENCE = TextColumns("sentence", None, None, "index")

GLUE_TASKS: dict[str, GlueTask] = {
    task.name: task
    for task in (
        # Source, label, the author's own mark and the sentence, in files without a header.
        _task("CoLA", BINARY, ("matthews",), TextColumns(3, None, 1, header=False), _SENTENCE),
        _task("SST-2", BINARY, ("accuracy",), TextColumns("sentence"), _SENTENCE),
        _mrpc(),
        _task(
            "STS-B",
            (),
            ("pearson", "spearman"),
            TextColumns("sentence1", "sentence2", "score", "index"),
        ),
        _task(
            "QQP",
            BINARY,
            ("accuracy", "f1"),
            TextColumns("question1", "question2", "is_duplicate", "id"),
        ),
        _mnli(),
        _task(
            "QNLI", ENTAILMENT, ("accuracy",), TextColumns("question", "sentence", "label", "index")
        ),
        _task("RTE", ENTAILMENT, ("accuracy",), _PAIR),
        _task("WNLI", BINARY, ("accuracy",), _PAIR),
        _diagnostics(),
    )
}
