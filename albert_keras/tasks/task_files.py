"""From the name of a task and the user's paths to the task and its sources."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from albert_keras.data.storage import exists
from albert_keras.tasks.finetuning_data import FinetuningData
from albert_keras.tasks.finetuning_task import FinetuningTask
from albert_keras.tasks.glue import GLUE_TASKS
from albert_keras.tasks.race.task import RaceTask
from albert_keras.tasks.squad.task import SquadTask
from albert_keras.tasks.task_names import CLASSIFY, RACE, REGRESS, SQUAD
from albert_keras.tasks.text_examples import TextColumns
from albert_keras.tasks.text_task import TextSource, TextTask, glue_source, labels_in

_SQUAD_FILES = {
    "squad1": ("train-v1.1.json", "dev-v1.1.json"),
    "squad2": ("train-v2.0.json", "dev-v2.0.json"),
}


class TaskFiles:
    """A task by its name, and its sources by the user's paths.

    Args:
        name: of `task_names.PREDICTED`.
        columns: of the user's own files; official ones have their own.
        labels: of a trained classifier. Default None: those of the file that is trained on.
        on_broken: is told of a row that cannot be read, which is then left out. Default None: it
            is refused.
        on_note: is told what of a file cannot be used as it stands. Default None.
        **options: arguments of `SquadTask`.

    Example:

        >>> rte = TaskFiles("rte")
        >>> data = rte.data(folder="glue/RTE")
        >>> rte.task.labels
        ['entailment', 'not_entailment']
    """

    def __init__(
        self,
        name: str,
        columns: TextColumns | None = None,
        *,
        labels: list[str] | None = None,
        on_broken: Callable[[ValueError], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        **options: Any,
    ):
        self._name, self._columns = name, columns or TextColumns()
        self._on_broken = on_broken
        self.task: FinetuningTask | None = None  # of own labels once they are known
        if name in SQUAD:
            self.task = SquadTask(answerable=name == "squad1", on_note=on_note, **options)
        elif name == RACE:
            self.task = RaceTask()
        elif name in GLUE_TASKS:
            glue = GLUE_TASKS[name]
            self.task = TextTask(glue.labels, glue=glue, on_broken=on_broken)
        elif name == REGRESS:
            self.task = TextTask(on_broken=on_broken)
        elif labels is not None:
            self.task = TextTask(labels, on_broken=on_broken)

    def data(
        self,
        folder: str | Path | None = None,
        train: str | Path | None = None,
        dev: str | Path | None = None,
        test: str | Path | None = None,
    ) -> FinetuningData:
        """The sources of a run. A file that is named goes before that of the folder.

        Args:
            folder: with the official files.
            train, dev, test: files; of RACE also folders.

        Raises:
            ValueError: a file is missing or there is none to train on.
        """
        official = {} if folder is None else self._official(folder)
        sources = {
            "train": official.get("train", {}) if train is None else {"train": str(train)},
            "dev": official.get("dev", {}) if dev is None else {"dev": str(dev)},
            "test": official.get("test", {}) if test is None else {"test": str(test)},
        }
        sources = {
            part: {
                name: self.source(path, name) if isinstance(path, str) else path
                for name, path in of_part.items()
            }
            for part, of_part in sources.items()
        }
        if not sources["train"]:
            raise ValueError(f"There must be something to train on. Received: {folder}, without.")
        (train_source,) = sources["train"].values()
        if self.task is None:
            self.task = TextTask(
                labels_in(train_source, self._on_broken), on_broken=self._on_broken
            )
        return FinetuningData(train_source, sources["dev"], sources["test"])

    def source(self, path: str, split: str) -> Any:
        """One file as a source; `split`: "train", "dev" or "test", or one of a task of GLUE."""
        if self._name in GLUE_TASKS:
            task = GLUE_TASKS[self._name]
            if Path(path).is_dir():
                return glue_source(task, task.split_named(split), path)
            return TextSource(path, task.columns_of(split, path), task.split_named(split))
        if self._name in (CLASSIFY, REGRESS):
            columns = self._columns
            if split == "test":  # which need not have a label
                columns = dataclasses.replace(columns, label=None)
            return TextSource(path, columns)
        return path

    def _official(self, folder) -> Mapping[str, Mapping[str, Any]]:
        """The sources of each part of a folder, by their names."""
        if self._name in SQUAD:
            files = zip(("train", "dev"), _SQUAD_FILES[self._name], strict=True)
            return {part: {part: _present(folder, name)} for part, name in files}
        if self._name == RACE:
            found = {part: f"{folder}/{part}" for part in ("train", "dev", "test")}
            if not Path(found["test"]).exists():
                del found["test"]
            return {part: {part: path} for part, path in found.items()}
        if self._name in GLUE_TASKS:
            task = GLUE_TASKS[self._name]
            found = {}
            for split in task.splits:
                part = split.partition("_")[0]
                if part == "test" and not task.has_files(split, folder):
                    continue
                found.setdefault(part, {})[split] = glue_source(task, split, folder)
            return found
        raise ValueError(
            f"A folder of official files is for GLUE, SQuAD and RACE. Received: {folder} for "
            f"{self._name}. Name the files of your own task, train and dev."
        )


def _present(folder, name):
    path = f"{str(folder).rstrip('/')}/{name}"
    if not exists(path):
        raise ValueError(f"The official folder has {name}. Received: {folder}, without.")
    return path
