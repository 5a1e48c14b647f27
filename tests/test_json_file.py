"""JSON files: what is read is what was written, and every error names the file."""

import pytest

from albert_keras.json_file import read_json, write_json


def test_what_is_written_is_read(tmp_path):
    write_json(tmp_path / "a.json", {"labels": ["Küche", "\t"], "n": 3})
    assert read_json(tmp_path / "a.json", keys=["n"]) == {"labels": ["Küche", "\t"], "n": 3}
    assert "Küche" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_the_name_of_a_file_that_is_not_utf8_comes_back(tmp_path):
    write_json(tmp_path / "a.json", {"model": "caf\udce9"})
    assert read_json(tmp_path / "a.json") == {"model": "caf\udce9"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, r"must be there.*a\.json \(No such file"),
        (b"", r"a\.json is damaged or cut off"),
        (b'{"n": 3, "lab', r"a\.json is damaged or cut off.*Unterminated string"),
        (b'{"n": "\xff"}', r"a\.json is damaged or cut off"),
        (b"[1]", r"a\.json must be a JSON object. Received: list"),
        (b'{"m": 3}', r"a\.json must have the keys n. Received: m, without n"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_cause(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_json(tmp_path / "a.json", keys=["n"])
