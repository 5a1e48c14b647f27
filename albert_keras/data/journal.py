"""The journal: what of a record set is done for good, so that a killed run can go on."""

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from albert_keras.data.packer import PackedBlock
from albert_keras.differences import differences, listed
from albert_keras.json_file import read_json, write_json

_JOURNAL, _BEGUN_WITH, _SPOOLS = "journal.json", "begun_with.json", "spools"
# So much text is tokenized again at most after a kill; its records wait in memory, about 15 MB.
_COMMIT_TEXT_BYTES = 1 << 25


class Journal:
    """The unfinished work on a record set, in a folder of its own.

        begun_with.json  what decides the records: settings, vocabulary and inputs
        journal.json     what is done; replaced as a whole at every commit and after every shard
        spools/0, 1, …   records of a range of keys each, in the order in which they were made

    A commit appends to the spools and then says in the journal how long they are now. What a killed
    process appended after that is cut off when the work is resumed. When all text is in the
    spools, they are sorted into shards, one by one, and removed, so the disk never holds
    everything twice. After a failure of power a spool may be shorter than the journal says; then
    it is refused.

    Use `begin` or `resume`.
    """

    def __init__(self, folder: Path, fields: dict[str, Any]):
        self._folder, self._spools = folder, folder / _SPOOLS
        self._fields = fields
        self._pending: dict[str, list[bytes]] = defaultdict(list)
        self.counts = Counter(fields["counts"])

    @classmethod
    def begin(cls, folder: Path, begun_with: dict[str, Any]) -> "Journal":
        """Starts a journal in an empty folder.

        Args:
            folder: exists.
            begun_with: all that decides the records, as JSON can hold it; its `inputs` are a list
                of [name, bytes, time].
        """
        fields = {"counts": {}, "spool_bytes": {}, "dropped": None, "shards": []}
        journal = cls(folder, {**fields, "max_sentences": 0})
        journal._spools.mkdir()
        write_json(folder / _BEGUN_WITH, begun_with)
        journal._write()
        return journal

    @classmethod
    def resume(cls, folder: Path, begun_with: dict[str, Any]) -> "Journal":
        """Goes on with the journal in a folder that a process has left.

        Raises:
            ValueError: there is none, it was begun with something else, or a spool is damaged.
        """
        path = folder / _JOURNAL
        for unfinished in folder.glob(".*.partial-*"):  # of `write_json`, killed
            unfinished.unlink()
        if not path.exists():
            raise ValueError(f"There is nothing to resume: {path} is missing. Leave `resume` out.")
        before = read_json(folder / _BEGUN_WITH, ["inputs"])
        inputs = before.pop("inputs"), begun_with["inputs"]
        changed = list(differences(before, {**begun_with, "inputs": None}))
        changed += _changed_inputs(*inputs)
        if changed:
            raise ValueError(
                "Records are resumed with the text and the settings that they were begun with. "
                "Received others:\n"
                f"{listed(changed)}Undo that, or leave `resume` out to begin again."
            )
        keys = "counts", "spool_bytes", "dropped", "shards", "max_sentences"
        journal = cls(folder, read_json(path, keys))
        if not journal.has_all_text:
            journal._cut_spools()
        return journal

    @property
    def has_all_text(self) -> bool:
        return self._fields["dropped"] is not None

    @property
    def shards(self) -> list[dict]:
        """The manifest's entries of the shards that are finished."""
        return self._fields["shards"]

    @property
    def max_sentences(self) -> int:
        """The most sentences of any chunk in them."""
        return self._fields["max_sentences"]

    def add(self, block: PackedBlock) -> None:
        """Takes the records of the next documents, and commits now and then."""
        for spool, records in block.spools.items():
            self._pending[str(spool)].append(records)
        self.counts += block.counts
        committed = self._fields["counts"].get("text_bytes", 0)
        if self.counts["text_bytes"] - committed >= _COMMIT_TEXT_BYTES:
            self._commit()

    def end_text(self, dropped: Counter) -> None:
        """Commits what is left.

        Args:
            dropped: what the reader left out, by reason.
        """
        self.counts += dropped
        self._fields["dropped"] = dict(dropped)
        self._commit()

    def records_of(self, spools: Iterable[int]) -> bytes:
        """The records of some spools, after the end of the text."""
        parts = []
        for spool in spools:
            size = self._fields["spool_bytes"].get(str(spool), 0)
            if size:
                parts.append(self._checked(spool, size).read_bytes())
        return b"".join(parts)

    def add_shard(self, entry: dict, max_sentences: int, spools: Iterable[int]) -> None:
        """Says that a shard is finished, and removes the spools that it was made of."""
        self._fields["shards"].append(entry)
        self._fields["max_sentences"] = max(self.max_sentences, max_sentences)
        self._write()
        for spool in spools:
            (self._spools / str(spool)).unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self._spools)
        (self._folder / _JOURNAL).unlink()
        (self._folder / _BEGUN_WITH).unlink()

    def _commit(self):
        sizes = self._fields["spool_bytes"]
        for spool, parts in self._pending.items():
            # Opened each time: a process may have fewer open files than there are spools.
            with open(self._spools / spool, "ab") as file:
                file.writelines(parts)
                sizes[spool] = file.tell()
        self._pending.clear()
        self._fields["counts"] = dict(self.counts)
        self._write()

    def _write(self):
        write_json(self._folder / _JOURNAL, self._fields)

    def _cut_spools(self):
        sizes = self._fields["spool_bytes"]
        for path in self._spools.iterdir():
            if path.name not in sizes:
                path.unlink()
        for spool, size in sizes.items():
            os.truncate(self._checked(spool, size), size)

    def _checked(self, spool, size):
        path = self._spools / str(spool)
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            raise ValueError(
                f"A spool is damaged: {path} has {found} bytes of {size}. Leave `resume` out to "
                "begin again."
            )
        return path


def _changed_inputs(before, now):
    """Lines such as "novel.txt has changed", of lists of [name, bytes, time]."""
    if before == now:
        return []
    inputs, others = ({name: rest for name, *rest in files} for files in (before, now))
    lines = [f"{name} is missing" for name in inputs if name not in others]
    lines += [f"{name} is new" for name in others if name not in inputs]
    lines += [
        f"{name} has changed" for name in inputs if others.get(name, inputs[name]) != inputs[name]
    ]
    return lines or ["the files were in another order"]
