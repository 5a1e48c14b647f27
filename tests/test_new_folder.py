"""A folder that appears whole or not at all."""

import pytest

from albert_keras.new_folder import new_folder, refuse_existing


def test_the_folder_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "a" / "b"
    with new_folder(target) as folder:
        (folder / "x").write_text("1")
        assert not target.exists() and folder.parent == target.parent
    assert (target / "x").read_text() == "1"
    assert [path.name for path in target.parent.iterdir()] == ["b"]


def test_a_failing_block_leaves_nothing_behind_not_even_the_parents(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with new_folder(tmp_path / "a" / "b") as folder:
            (folder / "x").write_text("1")
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_refused_before_the_block_runs(tmp_path):
    with pytest.raises(ValueError, match="must not exist yet. Received: .*mine"):
        (tmp_path / "mine").mkdir()
        with new_folder(tmp_path / "mine"):
            raise AssertionError("not reached")
    with pytest.raises(ValueError, match="must not exist yet"):
        refuse_existing(tmp_path / "mine")


def test_a_folder_made_meanwhile_is_not_overwritten(tmp_path):
    with pytest.raises(ValueError, match="must not exist yet"):
        with new_folder(tmp_path / "mine"):
            (tmp_path / "mine").mkdir()
    assert list((tmp_path / "mine").iterdir()) == []


def test_replace_swaps_the_whole_folder_and_keeps_the_old_one_on_failure(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "old").write_text("old")
    with pytest.raises(RuntimeError, match="disk full"):
        with new_folder(tmp_path / "mine", replace=True):
            raise RuntimeError("disk full")
    assert (tmp_path / "mine" / "old").read_text() == "old"
    with new_folder(tmp_path / "mine", replace=True) as folder:
        (folder / "new").write_text("new")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
