"""LineLog: lines of steps, whole or not at all."""

import pytest

from albert_keras.training.line_log import LineLog
from tests.full_disk import full_disk


@pytest.fixture
def log(tmp_path):
    log = LineLog(tmp_path / "log.jsonl")
    for step in (2, 4, 6):
        log.add(step, {"loss": step / 8})
    log.write()
    return log


def test_what_is_written_is_read(log, tmp_path):
    assert log.read() == [{"step": step, "loss": step / 8} for step in (2, 4, 6)]
    assert LineLog(tmp_path / "none.jsonl").read() == []


def test_later_steps_are_forgotten_and_a_line_that_was_cut_off(log, tmp_path):
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 3, "lo')
    log.forget_after(4)
    assert [line["step"] for line in log.read()] == [2, 4]
    assert (tmp_path / "log.jsonl").read_text().endswith('"loss": 0.5}\n')
    log.add(5, {})
    log.write()
    assert [line["step"] for line in log.read()] == [2, 4, 5]


def test_a_damaged_line_is_named(log, tmp_path):
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write("{}\n")
    for call in (log.read, lambda: log.forget_after(4)):
        with pytest.raises(ValueError, match="log.jsonl is damaged: a line is not as it was"):
            call()


def test_half_a_line_on_a_full_disk_is_taken_back_and_the_line_waits(log, tmp_path):
    path = tmp_path / "log.jsonl"
    before = path.read_bytes()
    log.add(8, {})
    with full_disk(len(before) + 5), pytest.raises(OSError, match="File too large"):
        log.write()
    assert path.read_bytes() == before
    log.add(10, {})
    log.write()
    assert [line["step"] for line in log.read()] == [2, 4, 6, 8, 10]
