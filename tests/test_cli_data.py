"""albert-keras vocab, records: their flags for other text, remote paths, resuming and a runner."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from small_tokenizer import small_tokenizer

from albert_keras import cli
from albert_keras.data import packer
from albert_keras.data.manifest import read_manifest

VOCAB = Path(__file__).parent / "vocabularies" / "tiny.model"


@pytest.fixture
def text(tmp_path):
    """20 documents of two sentences as plain text."""
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The grant of {n}.\nIs a licence.\n\n" for n in range(20)))
    return path


def test_json_lines_and_what_was_dropped(albert_keras, tmp_path):
    article = "\n".join(f"The grant of {n}." for n in range(20))
    rows = [{"article": article}, {"article": ""}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = ["records", tmp_path, "--vocab", VOCAB, "--out", tmp_path / "set"]
    code, out, err = albert_keras(*arguments)
    assert code == 2 and "--field must name the key" in err
    code, out, err = albert_keras(*arguments, "--field", "article")
    assert code == 0, err
    assert "1 documents, 20 sentences" in out and "\ndropped: 1 empty_texts\n" in out
    code, out, err = albert_keras(
        *("vocab", tmp_path / "a.jsonl", "--out", tmp_path / "vocab", "--size", 34),
        *("--field", "article"),
    )
    assert code == 0 and "34 pieces" in out and "dropped: 1 empty_texts" in out, err


def test_ctrl_c_keeps_the_work_and_says_so(albert_keras, text, tmp_path, monkeypatch):
    arguments = ["records", text, "--vocab", VOCAB, "--length", 32, "--out"]
    pack, packed = packer.pack_block, []

    def interrupted(block, *rest):
        if packed:
            raise KeyboardInterrupt
        packed.append(block)
        return pack(block, *rest)

    monkeypatch.setattr(packer, "_BLOCK_CHARACTERS", 200)
    monkeypatch.setattr(packer, "pack_block", interrupted)
    code, out, err = albert_keras(*arguments, tmp_path / "set")
    message = f"Stopped. To go on with {tmp_path / 'set'}, repeat the command with --resume.\n"
    assert (code, err) == (130, message)
    monkeypatch.setattr(packer, "pack_block", pack)
    code, out, err = albert_keras(*arguments, tmp_path / "set", "--resume", "--short-fraction", 1)
    assert code == 2 and "  --short-fraction was 0.1, is 1.0\n" in err
    code, out, err = albert_keras(*arguments, tmp_path / "set", "--resume")
    assert code == 0 and "20 documents" in out, err
    code, out, err = albert_keras(*arguments, tmp_path / "new", "--resume")
    assert code == 2 and "Received: none. Leave --resume out." in err


def test_ctrl_c_keeps_nothing_of_standard_input(albert_keras, text, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(packer, "pack_block", interrupted)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    code, _, err = albert_keras("records", "-", "--vocab", VOCAB, "--out", tmp_path / "set")
    assert (code, err) == (130, f"Stopped. Nothing was written to {tmp_path / 'set'}.\n")
    assert list(tmp_path.iterdir()) == [text]


def test_a_full_disk_keeps_the_work_and_says_so(albert_keras, text, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packer, "pack_block", full)
    code, _, err = albert_keras("records", text, "--vocab", VOCAB, "--out", tmp_path / "set")
    assert code == 2 and "repeat the command with --resume" in err and "No space left" in err


def test_text_vocabulary_and_records_may_be_remote(albert_keras, text, tmp_path):
    folder = "ram://cli"
    small_tokenizer().save(tmp_path / "vocab")
    for path in (text, *(tmp_path / "vocab").iterdir()):
        tf.io.gfile.makedirs(f"{folder}/vocab")
        tf.io.gfile.copy(str(path), f"{folder}/vocab/{path.name}")
    arguments = ["records", f"{folder}/vocab/text.txt", "--vocab", f"{folder}/vocab", "--out"]
    code, out, err = albert_keras(*arguments, f"{folder}/set", "--length", 32)
    assert code == 0 and out.strip().startswith(f"{folder}/set: 20 documents"), err
    assert read_manifest(f"{folder}/set")["counts"]["documents"] == 20
    code, _, err = albert_keras(*arguments, f"{folder}/set")
    assert code == 2 and "--out must not exist yet. Received: ram://cli/set" in err
    code, _, err = albert_keras("vocab", text, "--size", 30, "--out", f"{folder}/new")
    assert code == 2 and "--out of a vocabulary must be on this machine" in err


@pytest.mark.parametrize(
    "flags,message",
    [
        (["--beam-option=--region=R"], "--beam-option is for a --runner"),
        (["--runner", "DirectRunner", "--resume"], "--runner chooses .* Received: --resume or"),
        (["--runner", "DirectRunner", "--workers", "2"], "--runner chooses its workers"),
        (["--field", "text"], "text.txt, line 1: must be a JSON object"),
    ],
)
def test_flags_that_do_not_fit_are_refused(albert_keras, text, tmp_path, flags, message):
    out = tmp_path / "set"
    code, _, err = albert_keras("records", text, "--vocab", VOCAB, "--out", out, *flags)
    assert code == 2 and re.search(message, err), err
    assert not out.exists()


def test_a_runner_without_beam_names_the_extra(albert_keras, text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(sys.modules, "albert_keras.data.beam", raising=False)
    code, _, err = albert_keras(
        *("records", text, "--vocab", VOCAB, "--out", tmp_path / "set"),
        *("--runner", "DirectRunner"),
    )
    assert code == 2 and "pip install 'albert-keras[beam]'" in err


def test_the_command_does_not_start_tensorflow_for_local_names(
    albert_keras, text, tmp_path, monkeypatch
):
    def started():
        raise AssertionError("TensorFlow was started")

    monkeypatch.setattr(cli.data, "start_tensorflow", started)
    code, _, err = albert_keras("records", text, "--vocab", "none", "--out", tmp_path / "set")
    assert code == 2 and "--vocab must be there" in err
