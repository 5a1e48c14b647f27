"""Which folders are versions of an export."""

import pytest

from albert_keras.served_folder import versions_in


def test_versions_are_the_folders_whose_name_is_a_number_in_their_order(tmp_path):
    for name in ("9", "10", "1old", "old", ".2.partial-ab", "²", "٣", str(2**63)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"")
    (tmp_path / "11").mkdir()  # nothing in it
    assert [path.name for path in versions_in(tmp_path)] == ["9", "10"]
    assert versions_in(tmp_path / "1old") == [tmp_path / "1old"]


def test_two_folders_of_one_number_are_refused(tmp_path):
    for name in ("1", "2", "01"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="another number. Received: (1/ and 01/|01/ and 1/) in"):
        versions_in(tmp_path)


def test_a_folder_without_versions_is_refused_by_name(tmp_path):
    (tmp_path / "1old").mkdir()
    (tmp_path / "1old" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match=f"An export is a folder .*Received: {tmp_path}"):
        versions_in(tmp_path)
