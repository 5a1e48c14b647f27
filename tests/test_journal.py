"""Killed at any moment and resumed, the writer gives the bytes of an uninterrupted run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_records import ROOT, WordNumbers, files_of, random_corpus

from albert_keras.data import journal, packer, records
from albert_keras.data.record_set import RecordSet
from albert_keras.data.records import write_records

# Each life of the writer is a fork: importing TensorFlow takes seconds.
LIVES = """
import os, random, signal, sys, threading
sys.path[:0] = sys.argv[1:3]
from albert_keras.data import journal, packer
from test_records import WordNumbers, write_records
packer._BLOCK_CHARACTERS, journal._COMMIT_TEXT_BYTES = 4_000, 20_000

def killed_before_the_second_entry(lives):
    write, entries = journal.write_json, []
    def entry(path, fields):
        entries.append(path)
        if len(entries) == (4 if lives == 1 else 2):  # the first life makes two as it begins
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, fields)
    journal.write_json = entry

def killed_at_a_random_moment(lives):
    end = os.getpid(), signal.SIGKILL
    threading.Timer(random.uniform(0, 0.01 * lives), os.kill, end).start()

def write(folder, resume):
    text = sys.argv[3]
    try:
        write_records([text], WordNumbers(), folder, length=32, shards=5, resume=resume)
    except ValueError as error:  # killed before there was a journal
        assert "to resume" in str(error)
        write_records([text], WordNumbers(), folder, length=32, shards=5)

for kill, folder in zip((killed_before_the_second_entry, killed_at_a_random_moment), sys.argv[4:]):
    status, lives = None, 0
    while status != 0:
        lives += 1
        child = os.fork()
        if not child:
            kill(lives)
            write(folder, resume=lives > 1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL), status
        assert status == 0 or not os.path.exists(folder)
    print(lives)
"""


def test_lives_that_end_by_kills_give_the_bytes_of_one(tmp_path):
    random_corpus(tmp_path / "text", documents=200)
    write_records([tmp_path / "text"], WordNumbers(), tmp_path / "one", length=32, shards=5)
    process = subprocess.run(
        [sys.executable, "-c", LIVES, ROOT, ROOT / "tests"]
        + [tmp_path / name for name in ("text", "entries", "moments")],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    of_entries, of_moments = map(int, process.stdout.split())
    assert of_entries > 15 and of_moments > 1  # 11 commits, 5 shards
    assert files_of(tmp_path / "entries") == files_of(tmp_path / "one")
    assert files_of(tmp_path / "moments") == files_of(tmp_path / "one")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_killed_parent_of_workers_is_resumed_by_one_process(tmp_path, monkeypatch):
    random_corpus(tmp_path / "text", documents=200)
    (tmp_path / "script.py").write_text(
        "import os, signal, sys; sys.path[:0] = sys.argv[1:3]\n"
        "from albert_keras.data import journal, packer\n"
        "packer._BLOCK_CHARACTERS, journal._COMMIT_TEXT_BYTES = 4_000, 20_000\n"
        "from test_records import WordNumbers, write_records\n"
        "def progress(done, total):\n"
        "    if done > total / 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    write_records([sys.argv[3]], WordNumbers(), sys.argv[4], length=32, workers=2,\n"
        "                  progress=progress)\n"
    )
    process = subprocess.run(
        [sys.executable, tmp_path / "script.py", ROOT, ROOT / "tests"]
        + [tmp_path / name for name in ("text", "set")],
        stdout=subprocess.DEVNULL,  # a pipe would wait for the workers
        stderr=subprocess.DEVNULL,
    )
    assert process.returncode == -signal.SIGKILL
    tokenized = []
    pack = packer.pack_block
    monkeypatch.setattr(
        packer, "pack_block", lambda block, *rest: tokenized.extend(block) or pack(block, *rest)
    )
    arguments = [tmp_path / "text"], WordNumbers()
    write_records(*arguments, tmp_path / "set", length=32, resume=True, workers=1)
    assert len(tokenized) < 120  # of 200: what was committed is not tokenized again
    write_records(*arguments, tmp_path / "one", length=32)
    assert files_of(tmp_path / "set") == files_of(tmp_path / "one")


class Interrupted(Exception):
    """Neither a mistake of the user's nor one of ours."""


@pytest.fixture
def leftover(tmp_path, monkeypatch):
    """Unfinished work on `set`: half of the text is committed."""
    monkeypatch.setattr(packer, "_BLOCK_CHARACTERS", 4_000)
    monkeypatch.setattr(journal, "_COMMIT_TEXT_BYTES", 20_000)
    random_corpus(tmp_path / "text")

    def interrupt(done, total):
        if done > total / 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        write_records(
            [tmp_path / "text"], WordNumbers(), tmp_path / "set", length=32, progress=interrupt
        )
    (left,) = tmp_path.glob(".set.partial-*")
    return left


def test_shards_that_are_finished_are_not_sorted_again(tmp_path, monkeypatch):
    random_corpus(tmp_path / "text")
    write, written = records.write_shard, []

    def interrupted(path, data, layout):
        if len(written) == 3:
            raise Interrupted
        written.append(Path(path).name)
        return write(path, data, layout)

    arguments = [tmp_path / "text"], WordNumbers(), tmp_path / "set"
    monkeypatch.setattr(records, "write_shard", interrupted)
    with pytest.raises(Interrupted):
        write_records(*arguments, length=32, shards=5)
    written.clear()
    write_records(*arguments, length=32, shards=5, resume=True)
    assert written == [f"records-0000{shard}-of-00005.tfrecord" for shard in (3, 4)]
    assert RecordSet.load(tmp_path / "set").num_records > 0


def test_without_resume_the_leftover_is_removed(tmp_path, leftover):
    write_records([tmp_path / "text"], WordNumbers(), tmp_path / "set", length=32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "text"]


@pytest.mark.parametrize(
    "options,message",
    [
        ({"length": 64}, "`length` was 32, is 64"),
        ({"short_fraction": 0.5}, "`short_fraction` was 0.1, is 0.5"),
        ({"sentences": "split"}, "`sentences` was line, is split"),
        ({"field": "text"}, "`field` was None, is text"),
        ({"shards": 3}, "`shards` was None, is 3"),
    ],
)
def test_other_settings_are_refused_by_name_and_the_work_stays(
    tmp_path, leftover, options, message
):
    with pytest.raises(ValueError, match=message):
        write_records(
            [tmp_path / "text"],
            WordNumbers(),
            tmp_path / "set",
            **{"length": 32, "resume": True, **options},
        )
    assert leftover.exists()


def test_another_vocabulary_or_release_is_refused_by_name(tmp_path, leftover, monkeypatch):
    tokenizer = WordNumbers()
    tokenizer.sha256 = "ab" * 32
    arguments = {"length": 32, "resume": True}
    with pytest.raises(ValueError, match="`vocabulary .sha256.` was 5e5e.*, is abab"):
        write_records([tmp_path / "text"], tokenizer, tmp_path / "set", **arguments)
    monkeypatch.setattr(records.albert_keras, "__version__", "99")
    with pytest.raises(ValueError, match="`library_version` was .*, is 99"):
        write_records([tmp_path / "text"], WordNumbers(), tmp_path / "set", **arguments)


def test_other_inputs_are_refused_by_name(tmp_path, leftover):
    def refused(inputs, message):
        with pytest.raises(ValueError, match=message):
            write_records(inputs, WordNumbers(), tmp_path / "set", length=32, resume=True)

    files = sorted((tmp_path / "text").iterdir())
    refused(files[::-1], "the files were in another order")
    refused(files[:2], "2.txt is missing")
    (tmp_path / "text" / "3.txt").write_text("5 6\n")
    refused([tmp_path / "text"], "3.txt is new")
    (tmp_path / "text" / "3.txt").unlink()
    status = files[1].stat()
    os.utime(files[1], ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    refused([tmp_path / "text"], "1.txt has changed")


def test_a_damaged_spool_is_refused(tmp_path, leftover):
    spool = leftover / "spools" / "0"
    os.truncate(spool, 10)
    with pytest.raises(ValueError, match="A spool is damaged: .*/0 has 10 bytes of"):
        write_records([tmp_path / "text"], WordNumbers(), tmp_path / "set", length=32, resume=True)


def test_what_was_not_committed_is_cut_off(tmp_path, leftover):
    fields = json.loads((leftover / "journal.json").read_text())
    assert 0 < fields["counts"]["documents_read"] < 60
    with open(leftover / "spools" / "0", "ab") as file:
        file.write(b"half a record")
    (leftover / "spools" / "7").write_bytes(b"of no commit")
    arguments = [tmp_path / "text"], WordNumbers()
    write_records(*arguments, tmp_path / "set", length=32, resume=True)
    write_records(*arguments, tmp_path / "one", length=32)
    assert files_of(tmp_path / "set") == files_of(tmp_path / "one")


def test_standard_input_and_nothing_to_resume_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("5\n6\n")
    with pytest.raises(ValueError, match="`resume` reads the text again. Received: standard input"):
        write_records(["-"], WordNumbers(), tmp_path / "set", resume=True)
    with pytest.raises(ValueError, match="must be there to resume. Received: none"):
        write_records([tmp_path / "a.txt"], WordNumbers(), tmp_path / "set", resume=True)
    (tmp_path / ".set.partial-1234").mkdir()
    with pytest.raises(ValueError, match="nothing to resume: .*journal.json is missing"):
        write_records([tmp_path / "a.txt"], WordNumbers(), tmp_path / "set", resume=True)
    assert not (tmp_path / "set").exists()
