"""Record sets: the same bytes whoever writes them, nothing lost, nothing half-written."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from small_tokenizer import small_tokenizer

from albert_keras.data import packer, shards
from albert_keras.data.chunks import decode_chunks
from albert_keras.data.corpus import read_documents
from albert_keras.data.record_set import RecordSet
from albert_keras.data.records import write_records

ROOT = Path(__file__).resolve().parents[1]


class WordNumbers:
    """Reads "7 8" as the ids 7 and 8, and anything else as nothing; can be pickled."""

    def __init__(self, vocab_size=60_000):
        self.vocab_size = vocab_size
        self.sha256 = "5e" * 32

    def encode_lines(self, lines):
        ids = [[int(word) for word in line.split() if word.isdigit()] for line in lines]
        splits = np.cumsum([0, *map(len, ids)])
        return np.array([piece for line in ids for piece in line], np.int32), splits


class Dying(WordNumbers):
    """Ends its process."""

    def encode_lines(self, lines):
        os._exit(1)


def random_corpus(folder, documents=60, seed=0, files=3):
    """Text files of documents with sentences of 1..40 words; returns the ids of each document."""
    rng = np.random.default_rng(seed)
    expected, texts = [], [[] for _ in range(files)]
    for number in range(documents):
        sentences = [
            rng.integers(5, 60_000, rng.integers(1, 40)) for _ in range(rng.integers(1, 20))
        ]
        expected.append(np.concatenate(sentences).tolist())
        texts[number % files] += [" ".join(map(str, sentence)) for sentence in sentences] + [""]
    folder.mkdir(exist_ok=True)
    for number, lines in enumerate(texts):
        (folder / f"{number}.txt").write_text("\n".join(lines))
    return expected


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def shard_bytes(folder):
    return b"".join(data for name, data in files_of(folder).items() if name != "manifest.json")


def documents_in(record_set):
    """The ids of each document, put together again from the chunks in the order of the files."""
    documents = {}
    for serialized in tf.data.TFRecordDataset(record_set.paths).batch(1000):
        chunks = decode_chunks(serialized, record_set.layout, record_set.max_sentences)
        for row, record in enumerate(serialized.numpy()):
            first = int(chunks.first_token[row])
            ids = chunks.units[row, first : first + int(chunks.num_tokens[row])].numpy().tolist()
            document = documents.setdefault(record[:8], [])
            assert int.from_bytes(record[8:12], "big") == len(document)  # chunk numbers ascend
            document.append(ids)
    return [sum(chunks, []) for chunks in documents.values()]


@pytest.mark.parametrize("vocab_size,unit_bytes", [(60_000, 2), (65_535, 2), (65_536, 4)])
def test_every_token_of_the_corpus_is_in_the_records(tmp_path, vocab_size, unit_bytes):
    expected = random_corpus(tmp_path / "text")
    manifest = write_records(
        [tmp_path / "text"], WordNumbers(vocab_size), tmp_path / "set", length=32, shards=4
    )
    assert manifest["unit_bytes"] == unit_bytes
    record_set = RecordSet.load(tmp_path / "set")
    assert sorted(documents_in(record_set)) == sorted(expected)
    counts = manifest["counts"]
    assert counts["tokens"] == sum(map(len, expected))
    assert counts["documents"] == len(expected)
    for name in ("records", "tokens"):
        total = sum(shard[name] for shard in manifest["shards"])
        assert total == counts[{"records": "chunks"}.get(name, name)]
    assert manifest == json.loads((tmp_path / "set" / "manifest.json").read_text())


def test_what_has_no_tokens_is_counted(tmp_path):
    (tmp_path / "a.txt").write_text("5 6\n\x7f\n7\n\n\x7f\n\n8 9\n")
    manifest = write_records([tmp_path / "a.txt"], WordNumbers(), tmp_path / "set", length=16)
    assert manifest["dropped"] == {
        "sentences_without_tokens": 2,
        "empty_texts": 0,
        "repeated_contexts": 0,
    }
    assert manifest["counts"] == {
        "documents": 2,
        "sentences": 3,
        "split_sentences": 0,
        "chunks": 2,
        "pair_chunks": 1,
        "tokens": 5,
    }


def test_the_bytes_depend_on_neither_workers_nor_blocks_nor_the_order_of_files(
    tmp_path, monkeypatch
):
    random_corpus(tmp_path / "text")
    files = sorted((tmp_path / "text").iterdir())

    def written(name, inputs, workers, block):
        monkeypatch.setattr(packer, "_BLOCK_CHARACTERS", block)
        write_records(inputs, WordNumbers(), tmp_path / name, length=32, shards=3, workers=workers)
        return files_of(tmp_path / name)

    expected = written("one", files, 1, 1 << 20)
    assert len(expected) == 4
    assert written("small blocks", files, 1, 500) == expected
    assert written("three", files[::-1], 3, 700) == expected


def test_workers_give_the_ids_of_the_tokenizer(tmp_path):
    licence = ROOT / "LICENSE"
    tokenizer = small_tokenizer()
    for workers in (1, 2):
        write_records([licence], tokenizer, tmp_path / str(workers), length=64, workers=workers)
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")
    expected = [
        [piece for sentence in document for piece in tokenizer.encode(sentence)]
        for document in read_documents([licence])
    ]
    assert sorted(documents_in(RecordSet.load(tmp_path / "1", tokenizer))) == sorted(expected)


def test_a_worker_that_dies_ends_the_run(tmp_path):
    random_corpus(tmp_path / "text")
    with pytest.raises(RuntimeError, match="A worker process of 2 died.*Use fewer workers"):
        write_records([tmp_path / "text"], Dying(), tmp_path / "set", length=32, workers=2)
    assert not (tmp_path / "set").exists()


def test_shards_hold_ranges_of_keys_so_more_shards_give_the_same_order(tmp_path):
    random_corpus(tmp_path / "text")
    orders = []
    for number in (1, 2, 7, 100):
        folder = tmp_path / str(number)
        write_records([tmp_path / "text"], WordNumbers(), folder, length=32, shards=number)
        record_set = RecordSet.load(folder)
        assert len(record_set.paths) == number
        orders.append(list(tf.data.TFRecordDataset(record_set.paths).as_numpy_iterator()))
    assert all(order == orders[0] for order in orders)
    keys = [int.from_bytes(record[:8], "big") for record in orders[0]]
    assert keys == sorted(keys)


def test_shards_follow_the_size_and_standard_input_gives_the_same(tmp_path, monkeypatch):
    random_corpus(tmp_path / "text", files=1)
    file = tmp_path / "text" / "0.txt"
    monkeypatch.setattr(shards, "_SHARD_TEXT_BYTES", file.stat().st_size // 3)
    manifest = write_records([file], WordNumbers(), tmp_path / "file", length=32)
    assert len(manifest["shards"]) == 4  # the next power of two
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    write_records(["-"], WordNumbers(), tmp_path / "stdin", length=32)
    assert files_of(tmp_path / "stdin") == files_of(tmp_path / "file")


def test_packed_text_and_json_lines_give_the_same(tmp_path, monkeypatch):
    random_corpus(tmp_path / "text", files=1)
    text = (tmp_path / "text" / "0.txt").read_text()
    monkeypatch.setattr(shards, "_SHARD_TEXT_BYTES", len(text) // 3)
    packed, rows = tmp_path / "0.txt.gz", tmp_path / "0.jsonl"
    packed.write_bytes(gzip.compress(text.encode()))
    rows.write_text("".join(json.dumps({"text": part}) + "\n" for part in text.split("\n\n")))
    for source, field in ((tmp_path / "text", None), (packed, None), (rows, "text")):
        folder = tmp_path / f"set of {source.name}"
        write_records([source], WordNumbers(), folder, length=32, field=field)
        assert files_of(folder) == files_of(tmp_path / "set of text")
    assert len(files_of(folder)) == 5


def test_equal_documents_are_all_kept(tmp_path):
    (tmp_path / "a.txt").write_text("5 6\n7\n\n" * 5)
    manifest = write_records([tmp_path / "a.txt"], WordNumbers(), tmp_path / "set", length=16)
    assert manifest["counts"]["chunks"] == manifest["counts"]["documents"] == 5


def test_progress_is_told_in_bytes(tmp_path, monkeypatch):
    random_corpus(tmp_path / "text")
    monkeypatch.setattr(packer, "_BLOCK_CHARACTERS", 2000)
    told = []
    write_records(
        [tmp_path / "text"],
        WordNumbers(),
        tmp_path / "set",
        length=32,
        progress=lambda done, total: told.append((done, total)),
    )
    done, totals = zip(*told, strict=True)
    assert len(done) > 5 and list(done) == sorted(done)
    size = sum(path.stat().st_size for path in (tmp_path / "text").iterdir())
    assert set(totals) == {size} and done[-1] == size


@pytest.mark.parametrize(
    "text,options,message",
    [
        ("", {}, "The corpus is empty. Received: .*a.txt"),
        ("\n \n\x7f\n", {}, "The corpus is empty"),
        ("5\n6\n", {"length": 7}, "`length` must be from 8 to 65535. Received: 7"),
        ("5\n6\n", {"length": 70_000}, "`length` must be from 8 to 65535"),
        ("5\n6\n", {"short_fraction": 1.5}, "`short_fraction` must be in"),
        ("5\n6\n", {"workers": 0}, "`workers` must be at least 1"),
        ("5\n6\n", {"shards": 2000}, "`shards` must be from 1 to 1024. Received: 2000"),
        ("5\n6\n", {"sentences": "word"}, "`sentences` must be one of"),
        ("5\n6\n\udcff\n", {}, "a.txt, line 3: not valid UTF-8"),
        ("5\n6\n\udcff\n", {"workers": 2}, "a.txt, line 3: not valid UTF-8"),
    ],
)
def test_a_bad_input_is_named_and_leaves_nothing(tmp_path, text, options, message):
    (tmp_path / "a.txt").write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=message):
        write_records([tmp_path / "a.txt"], WordNumbers(), tmp_path / "set", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_exists_is_refused_before_any_work(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "a.txt").write_text("5\n6\n")
    with pytest.raises(ValueError, match="must not exist yet. Received: .*set"):
        write_records([tmp_path / "a.txt"], WordNumbers(), tmp_path / "set")
    assert list((tmp_path / "set").iterdir()) == []


def test_a_kill_in_the_middle_leaves_nothing_under_the_final_name(tmp_path):
    random_corpus(tmp_path / "text", documents=200)
    script = (
        "import os, signal, sys; sys.path[:0] = sys.argv[1:3]\n"
        "from albert_keras.data import packer; packer._BLOCK_CHARACTERS = 2000\n"
        "from test_records import WordNumbers, write_records\n"
        "def progress(done, total):\n"
        "    if done > total / 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_records([sys.argv[3]], WordNumbers(), sys.argv[4], length=32, progress=progress)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script, ROOT, ROOT / "tests", tmp_path / "text", tmp_path / "set"],
        env=os.environ,
        capture_output=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not (tmp_path / "set").exists()
    write_records([tmp_path / "text"], WordNumbers(), tmp_path / "set", length=32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "text"]


def test_processes_that_start_as_workers_do_never_see_ctrl_c_and_the_parent_does():
    """In a process of its own: a signal to one with other threads may come late."""
    script = """
import os, signal, subprocess, sys, time
from albert_keras.data import packer
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
try:
    with packer._without_ctrl_c():
        worker = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
except KeyboardInterrupt:
    print("blocked in the worker:", worker.stdout.strip())
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert process.stdout == "blocked in the worker: True\n", process.stderr


def test_workers_end_when_the_parent_is_killed(tmp_path):
    random_corpus(tmp_path / "text", documents=200)
    script = (
        "import multiprocessing, os, signal, sys; sys.path[:0] = sys.argv[1:3]\n"
        "from albert_keras.data import packer; packer._BLOCK_CHARACTERS = 2000\n"
        "from test_records import WordNumbers, write_records\n"
        "def progress(done, total):\n"
        "    with open(sys.argv[5], 'w') as file:\n"
        "        print(*(child.pid for child in multiprocessing.active_children()), file=file)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    write_records([sys.argv[3]], WordNumbers(), sys.argv[4], length=32, workers=2,\n"
        "                  progress=progress)\n"
    )
    (tmp_path / "script.py").write_text(script)
    process = subprocess.run(
        [sys.executable, tmp_path / "script.py", ROOT, ROOT / "tests"]
        + [tmp_path / name for name in ("text", "set", "workers")],
        stdout=subprocess.DEVNULL,  # a pipe would wait for the workers
        stderr=subprocess.DEVNULL,
    )
    workers = [int(pid) for pid in (tmp_path / "workers").read_text().split()]
    assert process.returncode == -signal.SIGKILL and len(workers) == 2
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_running, workers))


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended and that nobody has asked for yet still has its number.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def record_folder(tmp_path):
    random_corpus(tmp_path / "text")
    write_records([tmp_path / "text"], WordNumbers(), tmp_path / "set", length=32, shards=2)
    return tmp_path / "set"


def test_records_of_another_vocabulary_are_refused(record_folder):
    tokenizer = WordNumbers()
    assert RecordSet.load(record_folder, tokenizer).num_records > 0
    tokenizer.sha256 = "ab" * 32
    with pytest.raises(ValueError, match="another vocabulary .sha256 5e5e5e5e5e5e.*abababababab"):
        RecordSet.load(record_folder, tokenizer)


def test_a_missing_or_damaged_shard_is_named(record_folder):
    shard = record_folder / "records-00001-of-00002.tfrecord"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="damaged: .*records-00001-of-00002.tfrecord"):
        RecordSet.load(record_folder)
    assert RecordSet.load(record_folder, verify=False)
    shard.write_bytes(data[:-1])
    with pytest.raises(ValueError, match="damaged: .*records-00001-of-00002.tfrecord"):
        RecordSet.load(record_folder, verify=False)
    shard.unlink()
    with pytest.raises(ValueError, match="missing: .*records-00001-of-00002.tfrecord"):
        RecordSet.load(record_folder)


def test_a_folder_that_is_no_record_set_is_refused(record_folder, tmp_path):
    with pytest.raises(ValueError, match="a folder with a manifest.json. Received: .*text"):
        RecordSet.load(tmp_path / "text")
    manifest = record_folder / "manifest.json"
    good = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**good, "version": 99}))
    with pytest.raises(ValueError, match="version 3 can be read. Received: .* of version 99"):
        RecordSet.load(record_folder)
    manifest.write_text('{"model": "albert"}')
    with pytest.raises(ValueError, match="is not the manifest of a record set"):
        RecordSet.load(record_folder)
    damaged = {name: value for name, value in good.items() if name != "vocabulary"}
    manifest.write_text(json.dumps(damaged))
    with pytest.raises(ValueError, match="manifest.json must have the keys .*without vocabulary"):
        RecordSet.load(record_folder)
    manifest.write_text(json.dumps({**good, "vocabulary": None}))
    with pytest.raises(ValueError, match="manifest.json: `vocabulary` must be a JSON object"):
        RecordSet.load(record_folder)
    manifest.write_text(json.dumps({**good, "shards": [{"name": "x"}]}))
    with pytest.raises(ValueError, match="manifest.json: shard 0 must have .*without records"):
        RecordSet.load(record_folder)
    edits = {
        "shards": good["shards"] * 2,
        "unit_bytes": 3,
        "max_sentences": -1,
        "settings": {**good["settings"], "length": 64},
        "counts": {**good["counts"], "chunks": 10},
    }
    for name, value in edits.items():
        manifest.write_text(json.dumps({**good, name: value}))
        with pytest.raises(ValueError, match="manifest.json is damaged or was edited"):
            RecordSet.load(record_folder)
    manifest.write_text(json.dumps(good, indent=8, sort_keys=True))  # the same in another layout
    assert RecordSet.load(record_folder)
    del damaged["version"]
    manifest.write_text(json.dumps(damaged))
    with pytest.raises(ValueError, match="version 3 can be read. Received: .* of version None"):
        RecordSet.load(record_folder)
    manifest.write_text('{"format"')
    with pytest.raises(ValueError, match="manifest.json is damaged"):
        RecordSet.load(record_folder)
