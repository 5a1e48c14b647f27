"""A folder that appears whole or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from albert_keras import lock
from albert_keras.new_folder import new_folder, refuse_existing, refuse_unwritable, work_folder


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


def test_where_no_folder_can_be_made_is_told_and_the_attempt_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file" / "x", tmp_path / "file" / "x" / "y"):
        with pytest.raises(ValueError, match=f"Received: {target}, and in .*Not a directory"):
            refuse_unwritable(target)
    if Path("/proc").is_dir():  # where even the superuser, whom no mode stops, makes none
        with pytest.raises(ValueError, match="Received: /proc/x/y, and in /proc none can"):
            refuse_unwritable("/proc/x/y")
    refuse_unwritable(tmp_path / "new" / "one")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_that_leads_nowhere_is_something(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="must not exist yet"):
        refuse_existing(tmp_path / "link")


def test_a_folder_made_meanwhile_is_not_overwritten(tmp_path):
    with pytest.raises(ValueError, match="must not exist yet"):
        with new_folder(tmp_path / "mine"):
            (tmp_path / "mine").mkdir()
    assert list((tmp_path / "mine").iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from albert_keras.new_folder import new_folder\n"
        "with new_folder(sys.argv[1]) as folder:\n"
        "    (folder / 'x').write_text('1')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "mine")])
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".mine.partial-")
    with new_folder(tmp_path / "other"):  # of another name
        assert left.exists()
    with new_folder(tmp_path / "mine") as folder:
        assert not left.exists()
        with pytest.raises(ValueError, match="must not exist yet"):
            with new_folder(tmp_path / "mine"):  # as another process might
                assert folder.exists()
                (tmp_path / "mine").mkdir()
        (tmp_path / "mine").rmdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "other"]


def test_where_there_are_no_locks_nothing_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    (tmp_path / ".mine.partial-ab").mkdir()
    with new_folder(tmp_path / "mine"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.partial-ab", "mine"]


def test_a_folder_that_was_moved_away_is_kept_until_there_is_a_new_one(tmp_path):
    old = tmp_path / ".mine.partial-ab-replaced"  # of a process killed between two renames
    old.mkdir()
    with pytest.raises(RuntimeError, match="disk full"):
        with new_folder(tmp_path / "mine", replace=True):
            raise RuntimeError("disk full")
    assert old.exists()
    for _ in range(2):
        with new_folder(tmp_path / "mine", replace=True):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


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


def test_work_that_is_kept_can_be_resumed(tmp_path):
    target = tmp_path / "a"
    with pytest.raises(KeyError):
        with new_folder(target, discard_after=ValueError) as folder:
            (folder / "x").write_text("1")
            raise KeyError
    assert folder.exists() and not target.exists()
    with new_folder(target, resume=True) as resumed:
        assert resumed == folder and (resumed / "x").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_work_is_discarded_after_what_the_caller_says(tmp_path):
    with pytest.raises(ValueError):
        with new_folder(tmp_path / "a", discard_after=ValueError):
            raise ValueError
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_resume_or_work_in_use_is_told(tmp_path):
    with pytest.raises(ValueError, match="Unfinished work on .*a must be there.* Received: none"):
        with new_folder(tmp_path / "a", resume=True):
            raise AssertionError("not reached")
    with new_folder(tmp_path / "a"):
        with pytest.raises(ValueError, match="Received: another process is at work"):
            with new_folder(tmp_path / "a", resume=True):
                raise AssertionError("not reached")


def test_a_work_folder_is_removed_in_the_end(tmp_path):
    with work_folder(tmp_path / "a") as folder:
        (folder / "x").write_text("1")
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
