"""A pretraining that is killed goes on to the bit. `python -m tests.kill_and_resume` kills more."""

from tests.kill_and_resume import compared


def test_a_pretraining_that_is_killed_goes_on_to_the_bit(tmp_path):
    assert compared(tmp_path, kills=2, steps=60, seed=1, flags=[]) == []
