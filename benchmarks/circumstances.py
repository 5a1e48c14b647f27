"""Where and when a benchmark runs: the revision, the machine, the versions."""

import datetime
import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks.page.results import Run

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv-parity" / "bin" / "python"
_PEERS = ("torch", "transformers", "keras-hub", "keras", "tensorflow")
# What is measured and how; a commit to the page or to other files changes no figure.
_MEASURED = ("albert_keras", "export", "setup.cfg", ":(glob)benchmarks/*.py")
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def revision() -> str:
    """The last commit that changed what is measured."""
    commit = _git("log", "-1", "--format=%h", "--abbrev=10", "--", *_MEASURED)
    if not commit:
        return "unknown" + Run.CHANGED  # no checkout
    return commit + (Run.CHANGED if _git("status", "--porcelain", "--", *_MEASURED) else "")


def machine() -> dict[str, str]:
    """Names and values, as the page shows them."""
    from albert_keras.backend import is_keras_3
    from albert_keras.report.machine import describe_machine

    described = describe_machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": described.pop("processor"),
        "instructions": _instructions(),
        "memory": f"{memory / 2**30:.0f} GiB",
        **described,
        "Keras": version("keras" if is_keras_3() else "tf_keras"),
    }


def versions_of_peers() -> dict[str, str]:
    """Empty where the environment of `make parity` is missing, or not whole."""
    if not PEERS.exists():
        return {}
    code = "import importlib.metadata as m, json, sys; "
    code += "print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"
    asked = subprocess.run([PEERS, "-c", code, *_PEERS], capture_output=True, check=False)
    return json.loads(asked.stdout) if asked.returncode == 0 else {}


def _git(*arguments) -> str:
    try:
        asked = subprocess.run(
            ["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return asked.stdout.strip()


def _instructions() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return "unknown"
    flags = {flag for line in lines if line.startswith("flags") for flag in line.split()}
    return ", ".join(name for name in _INSTRUCTIONS if name in flags) or "none of note"
