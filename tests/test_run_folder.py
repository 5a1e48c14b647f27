"""A run's folder: begun once, resumed with the same settings, by one process at a time."""

import json
import subprocess
import sys

import pytest

from albert_keras import lock, run_folder
from albert_keras.run_folder import begin_run, only_process_in, refuse_run, run_settings

HOLD = (
    "import sys\n"
    "from albert_keras.run_folder import only_process_in\n"
    "with only_process_in(sys.argv[1]):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def run(tmp_path):
    begin_run(tmp_path / "run", {"batch": 8, "recipe": {"seed": 0, "rate": 0.1}, "shards": ["a"]})
    return tmp_path / "run"


def test_a_folder_that_exists_is_not_begun_again(run):
    with pytest.raises(ValueError, match="must not exist yet.*--resume"):
        begin_run(run, {"batch": 8})


def test_a_run_where_no_folder_can_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="where a folder can be made. Received: .*file/run"):
        refuse_run(tmp_path / "file" / "run")


def test_a_run_that_fails_to_begin_leaves_no_folder(tmp_path, monkeypatch):
    def full(path, fields):
        raise OSError("disk full")

    monkeypatch.setattr(run_folder, "write_json", full)
    with pytest.raises(OSError, match="disk full"):
        begin_run(tmp_path / "runs" / "one", {})
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_with_the_same_settings_only_and_says_which_differ(run):
    same = run_settings(run)["settings"]
    begin_run(run, same, resume=True)
    other = {"batch": 8, "recipe": {"seed": 5, "rate": 0.1}, "shards": ["b"], "new": 1}
    with pytest.raises(ValueError, match="goes on with the settings") as error:
        begin_run(run, other, resume=True)
    assert str(error.value).splitlines()[1:-1] == [
        "  `recipe.seed` was 0, is 5",
        "  `shards[0]` was a, is b",
        "  `new` was None, is 1",
    ]
    with pytest.raises(ValueError, match="`shards` had 1 entries, has 2"):
        begin_run(run, {**same, "shards": ["a", "b"]}, resume=True)
    with pytest.raises(ValueError, match="  and 20 more\n"):
        begin_run(run, {**same, **{str(number): 1 for number in range(30)}}, resume=True)


def test_a_run_does_not_go_on_with_the_other_keras(run):
    (run / "run.json").write_text(json.dumps({**run_settings(run), "keras": 1}))
    with pytest.raises(ValueError, match="of Keras 1, and this is Keras"):
        begin_run(run, {"batch": 8}, resume=True)


def test_there_must_be_a_run_to_go_on_with(tmp_path):
    with pytest.raises(ValueError, match="no run to resume"):
        begin_run(tmp_path / "nothing", {}, resume=True)


def test_a_damaged_run_is_named(run):
    (run / "run.json").write_text('{"keras": 2, "sett')
    with pytest.raises(ValueError, match="run.json is damaged or cut off"):
        run_settings(run)
    (run / "run.json").write_text('{"keras": 2, "settings": 3}')
    with pytest.raises(ValueError, match="run.json: `settings` must be a JSON object"):
        run_settings(run)


def test_one_process_at_a_time_until_it_ends_however_it_ends(run):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match=f"One process at a time.*Received: {run}"):
            with only_process_in(run):
                raise AssertionError("not reached")
        process.kill()
    with only_process_in(run):
        pass


def test_where_there_are_no_locks_a_run_goes_on(run, monkeypatch):
    class NoLocks:
        LOCK_EX = LOCK_NB = 0

        def flock(descriptor, mode):
            raise OSError(95, "Operation not supported")

    for without in (NoLocks, None):
        monkeypatch.setattr(lock, "fcntl", without)
        with only_process_in(run):
            pass
