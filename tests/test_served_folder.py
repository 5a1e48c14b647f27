"""Which folders are versions of an export."""

import pytest

from albert_keras.served_folder import versions_in


def test_versions_are_the_folders_whose_name_is_a_number_in_their_order(tmp_path):
    for name in ("9", "10", "1old", "old", ".2.partial-ab", "²", "٣"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"")
    (tmp_path / "11").mkdir()  # nothing in it
    assert [path.name for path in versions_in(tmp_path)] == ["9", "10"]
    assert versions_in(tmp_path / "1old") == [tmp_path / "1old"]


def test_a_folder_without_versions_is_refused_by_name(tmp_path):
    (tmp_path / "1old").mkdir()
    (tmp_path / "1old" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match=f"An export is a folder .*Received: {tmp_path}"):
        versions_in(tmp_path)
