"""A file that appears whole or not at all."""

import os

import pytest

from albert_keras.new_file import write_file


def test_text_is_written_as_utf8_and_bytes_as_they_are(tmp_path):
    write_file(tmp_path / "a", "Küche\n")
    assert (tmp_path / "a").read_bytes() == b"K\xc3\xbcche\n"
    write_file(tmp_path / "a", b"\xff")
    assert (tmp_path / "a").read_bytes() == b"\xff"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_failure_before_the_end_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    write_file(tmp_path / "a", "old")

    def full(file):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_file(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
