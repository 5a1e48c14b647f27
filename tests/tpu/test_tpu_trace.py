"""The train step under a fake TPUStrategy: it traces, and XLA has a kernel for all that it does.

No TPU ran it. That its program fits a TPU's memory, how fast it is and what numbers it gives is not
tested here.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tpu.train_step import LENGTH, ROWS

pytestmark = pytest.mark.both_kerases

CASES = "sop,1", "nsp,2"


@pytest.fixture(scope="module")
def traces():
    process = subprocess.run(
        [sys.executable, "-m", "tests.tpu.trace", *CASES],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", CASES)
def test_a_tpu_has_a_kernel_for_every_op_of_the_train_step(traces, case):
    trace = traces[case]
    assert trace["unsupported"] == []
    assert trace["ops"] > 1000  # LAMB alone has dozens for each of 32 weights
    assert all(shape == [ROWS // 2, LENGTH] for shape in trace["shapes"])


@pytest.mark.parametrize("case", CASES)
def test_nothing_inside_the_step_is_compiled_by_itself(traces, case):
    assert traces[case]["kernels"] == []


def test_what_only_the_host_can_do_is_seen(traces):
    expected = {"AsString(int32)", "EagerPyFunc()", "ReverseV2(int32, string)"}
    assert expected <= set(traces["host work"]["unsupported"])
