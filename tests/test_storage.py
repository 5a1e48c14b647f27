"""Text and records on a remote file system, here TensorFlow's in memory."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf
from small_tokenizer import small_tokenizer
from test_records import WordNumbers, files_of, random_corpus

from albert_keras.data import records
from albert_keras.data.corpus import read_documents, text_files, total_bytes
from albert_keras.data.record_set import RecordSet
from albert_keras.data.records import write_records
from albert_keras.data.storage import local_copy

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def remote(request):
    """A remote folder of this test."""
    return f"ram://{request.node.name.partition('[')[0]}"


def put(path, content):
    tf.io.gfile.makedirs(path.rpartition("/")[0])
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)


def get(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def upload(folder, remote):
    for name, data in files_of(folder).items():
        put(f"{remote}/{name}", data)


def test_remote_files_and_folders_are_read_as_local_ones(remote):
    put(f"{remote}/text/b/2.txt", b"b1\n")
    put(f"{remote}/text/1.txt", b"a1\na2\n")
    put(f"{remote}/text/readme.md", b"no")
    assert list(read_documents([f"{remote}/text"])) == [["a1", "a2"], ["b1"]]
    files = text_files([f"{remote}/text/1.txt", f"{remote}/text"])
    assert files == [f"{remote}/text/{name}" for name in ("1.txt", "1.txt", "b/2.txt")]
    assert total_bytes(files) == 15


@pytest.mark.parametrize(
    "path,message",
    [
        ("ram://nowhere/a.txt", "No such file or folder. Received: ram://nowhere/a.txt"),
        ("what://a.txt", "Cannot use what://a.txt: File system scheme 'what' not implemented"),
    ],
)
def test_what_cannot_be_read_is_named(path, message):
    with pytest.raises(ValueError, match=message):
        read_documents([path])


def test_the_line_of_a_bad_byte_is_told_for_a_remote_file(remote):
    put(f"{remote}/a.txt", b"a\n\xff\n")
    with pytest.raises(ValueError, match=f"{remote}/a.txt, line 2: not valid UTF-8"):
        list(read_documents([f"{remote}/a.txt"]))


def test_remote_records_are_those_of_this_machine(tmp_path, remote):
    random_corpus(tmp_path / "text")
    upload(tmp_path / "text", f"{remote}/text")
    put(f"{remote}/set/records-00007-of-00008.tfrecord", b"what a killed run left")
    here = write_records([tmp_path / "text"], WordNumbers(), tmp_path / "set", length=32, shards=3)
    there = write_records([f"{remote}/text"], WordNumbers(), f"{remote}/set", length=32, shards=3)
    assert here == there
    found = {name: get(f"{remote}/set/{name}") for name in tf.io.gfile.listdir(f"{remote}/set")}
    assert found == files_of(tmp_path / "set")
    assert RecordSet.load(f"{remote}/set", WordNumbers()).num_records == here["counts"]["chunks"]
    with pytest.raises(ValueError, match=f"must not exist yet. Received: {remote}/set, which hold"):
        write_records([tmp_path / "text"], WordNumbers(), f"{remote}/set")


def test_a_remote_set_is_none_without_its_manifest_and_can_be_resumed(
    tmp_path, remote, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    random_corpus(tmp_path / "text")
    arguments = [tmp_path / "text"], WordNumbers(), f"{remote}/set"
    uploaded, upload_one = [], records.upload

    def interrupted(path, folder):
        if len(uploaded) == 2:
            raise OSError(28, "No space left on device")
        uploaded.append(path.name)
        upload_one(path, folder)

    monkeypatch.setattr(records, "upload", interrupted)
    with pytest.raises(OSError, match="No space left"):
        write_records(*arguments, length=32, shards=5)
    with pytest.raises(ValueError, match="a folder with a manifest.json"):
        RecordSet.load(f"{remote}/set")
    uploaded.clear()
    monkeypatch.setattr(records, "upload", upload_one)
    write_records(*arguments, length=32, shards=5, resume=True)
    write_records([tmp_path / "text"], WordNumbers(), tmp_path / "one", length=32, shards=5)
    for name, data in files_of(tmp_path / "one").items():
        assert get(f"{remote}/set/{name}") == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "text"]


def test_a_remote_vocabulary_is_copied_for_the_block(tmp_path, remote):
    small_tokenizer().save(tmp_path)
    upload(tmp_path, f"{remote}/run/model")
    put(f"{remote}/run/model.safetensors", b"large")
    names = ["spiece.model", "model/spiece.model", "model/tokenizer_config.json"]
    with local_copy(f"{remote}/run", names) as here:
        assert files_of(here / "model") == files_of(tmp_path)
        assert [path.name for path in here.iterdir()] == ["model"]
    assert not here.exists()
    with local_copy(f"{remote}/run/model/spiece.model") as here:
        assert here.read_bytes() == (tmp_path / "spiece.model").read_bytes()
    with local_copy(tmp_path) as here:
        assert here == tmp_path
    with pytest.raises(ValueError, match=f"must hold vocab.txt. Received: {remote}/run, without"):
        with local_copy(f"{remote}/run", ["vocab.txt"]):
            pass


def test_local_text_is_read_without_tensorflow():
    code = (
        "import sys; from albert_keras.data.corpus import read_documents;"
        f"assert list(read_documents([{str(ROOT / 'LICENSE')!r}]));"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
