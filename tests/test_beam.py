"""The records of Apache Beam are those of the local writer, to the byte."""

import gzip
import json
import os

import pytest
from small_tokenizer import small_tokenizer
from test_records import WordNumbers, files_of, random_corpus

from albert_keras.data import packer, shards
from albert_keras.data.records import write_records

pytest.importorskip("apache_beam", reason="install the extra `beam` to run this test")

# Beam's own, and those of what it brings.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def write_with_beam():
    from albert_keras.data.beam import write_records_with_beam

    return write_records_with_beam


@pytest.mark.parametrize("options", [{}, {"shards": 7}, {"short_fraction": 0.5, "shards": 100}])
def test_shards_and_manifest_are_those_of_the_local_writer(
    tmp_path, monkeypatch, write_with_beam, options
):
    monkeypatch.setattr(packer, "_BLOCK_CHARACTERS", 3000)
    monkeypatch.setattr(shards, "_SHARD_TEXT_BYTES", 10_000)
    random_corpus(tmp_path / "text")
    arguments = [tmp_path / "text"], WordNumbers()
    local = write_records(*arguments, tmp_path / "local", length=32, **options)
    beam = write_with_beam(*arguments, tmp_path / "beam", length=32, **options)
    assert len(local["shards"]) > 1
    assert files_of(tmp_path / "beam") == files_of(tmp_path / "local")
    assert beam == local


def test_every_format_and_what_was_dropped_are_those_of_the_local_writer(tmp_path, write_with_beam):
    rows = [{"text": "The grant. Of the licence."}, {"text": " "}, {"text": "One.\n\nTwo."}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(rows[0]).encode()))
    paragraphs = [{"context": "One. Two."}, {"context": "One. Two."}]
    (tmp_path / "c.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    arguments = [tmp_path, tmp_path / "c.json"], small_tokenizer()
    options = {"length": 32, "sentences": "split", "field": "text"}
    write_records(*arguments, tmp_path / "local", **options)
    manifest = write_with_beam(*arguments, tmp_path / "beam", **options)
    assert files_of(tmp_path / "beam") == files_of(tmp_path / "local")
    dropped = {"sentences_without_tokens": 0, "empty_texts": 1, "repeated_contexts": 1}
    assert manifest["dropped"] == dropped and manifest["counts"]["documents"] == 4


def test_a_remote_folder_gets_its_shards_and_last_its_manifest(tmp_path, write_with_beam):
    import tensorflow as tf

    random_corpus(tmp_path / "text")
    write_records([tmp_path / "text"], WordNumbers(), tmp_path / "local", length=32, shards=2)
    write_with_beam([tmp_path / "text"], WordNumbers(), "ram://beam/set", length=32, shards=2)
    for name, data in files_of(tmp_path / "local").items():
        with tf.io.gfile.GFile(f"ram://beam/set/{name}", "rb") as file:
            assert file.read() == data
    assert len(tf.io.gfile.listdir("ram://beam/set")) == 3


@pytest.mark.parametrize(
    "text,message",
    [("", "The corpus is empty"), ("5 6\n\udcff\n", "a.txt, line 2: not valid UTF-8")],
)
def test_a_mistake_in_the_text_is_quoted_and_leaves_nothing(
    tmp_path, write_with_beam, text, message
):
    (tmp_path / "a.txt").write_text(text, errors="surrogateescape")
    with pytest.raises(Exception, match=message):
        write_with_beam([tmp_path / "a.txt"], WordNumbers(), tmp_path / "set")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_standard_input_is_refused(tmp_path, write_with_beam):
    with pytest.raises(ValueError, match="A runner reads files. Received: standard input"):
        write_with_beam(["-"], WordNumbers(), tmp_path / "set")
