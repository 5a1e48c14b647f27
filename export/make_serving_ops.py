"""Makes serving_ops.json: which ops the TensorFlow of each TensorFlow Serving knows.

    python -P export/make_serving_ops.py

A TensorFlow Serving links TensorFlow of its own version, and the kernels of a tensorflow-text that
its workspace.bzl names. Their wheels are downloaded without being installed (2.5 GB, one at a time,
about 3 minutes), and the list of ops is what TensorFlow's C library says that it has. It takes the
wheels of Linux on x86-64, whichever machine it runs on, so it must run on such a one.

What the list cannot say: which types of elements an op takes, and what else a server links.
"""

import json
import runpy
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TARGET = Path(__file__).with_name("serving_ops.json")
HOW = "Made by make_serving_ops.py from the wheels of tensorflow-cpu and tensorflow-text."
TENSORFLOW = {
    "2.12": "2.12.0",
    "2.13": "2.13.0",
    "2.14": "2.14.0",
    "2.15": "2.15.0",
    "2.16": "2.16.1",
    "2.17": "2.17.0",
    "2.18": "2.18.0",
    "2.19": "2.19.0",
    "2.20": "2.20.0",
    "2.21": "2.21.0",
}
# tensorflow_serving/workspace.bzl of the tags 2.12.0 to 2.19.1, of 2.20.0 and of 2026-07-30. Each
# loads in the TensorFlow that it was built for, so its ops are read there.
TEXT = {"2.12.1": "2.12", "2.20.0": "2.20"}
FIRST_WITH_NEWER_TEXT = "2.20"


def main() -> None:
    known = {}  # by TensorFlow Serving's version, by op: names of attributes
    text = {}
    for server, version in TENSORFLOW.items():
        with tempfile.TemporaryDirectory() as scratch:
            _unpack("tensorflow-cpu", version, scratch, "tensorflow/libtensorflow")
            known[server] = _ops_of(scratch)
            for of, built_for in TEXT.items():
                if built_for == server:
                    _unpack("tensorflow-text", of, scratch, "tensorflow_text/python/ops/_")
                    kernels = sorted(Path(scratch).glob("_*.so"))
                    both = _ops_of(scratch, *map(str, kernels))
                    text[of] = {op: both[op] for op in both if op not in known[server]}
        print(server, len(known[server]), file=sys.stderr)
    servers = list(TENSORFLOW)
    older, newer = TEXT
    linked = {
        server: newer if at >= servers.index(FIRST_WITH_NEWER_TEXT) else older
        for at, server in enumerate(servers)
    }
    for server in servers:
        known[server] |= text[linked[server]]
    fields = {
        "how": HOW,
        "tensorflow": TENSORFLOW,
        "tensorflow_text": linked,
        **_compact(known),
    }
    TARGET.write_text(json.dumps(fields, indent=1) + "\n")


def _compact(known: dict[str, dict[str, list[str]]]) -> dict:
    """What all servers know once, and of the rest who does."""
    ops = sorted(set().union(*known.values()))
    who = {op: [server for server in known if op in known[server]] for op in ops}
    attributes = {}
    for op in ops:
        names = sorted(set().union(*(known[server][op] for server in who[op])))
        knowing = {name: [s for s in who[op] if name in known[s][op]] for name in names}
        if changed := {name: having for name, having in knowing.items() if having != who[op]}:
            attributes[op] = changed
    return {
        "ops_of_all": [op for op in ops if len(who[op]) == len(known)],
        "ops_of_some": {op: who[op] for op in ops if len(who[op]) < len(known)},
        "attributes_of_some": attributes,
    }


def _unpack(name: str, version: str, folder: str, wanted: str) -> None:
    platforms = [f"manylinux{of}_x86_64" for of in ("2014", "_2_17", "_2_27")]
    with tempfile.TemporaryDirectory() as downloads:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--no-cache-dir", "--only-binary=:all:", "--python-version=3.11"),
                *(f"--platform={platform}" for platform in platforms),
                *("--dest", downloads, f"{name}=={version}"),
            ],
            check=True,
        )
        [wheel] = Path(downloads).iterdir()
        with zipfile.ZipFile(wheel) as archive:
            for path in archive.namelist():
                if path.startswith(wanted) and ".so" in path:
                    Path(folder, Path(path).name).write_bytes(archive.read(path))


def _ops_of(folder: str, *kernels: str) -> dict[str, list[str]]:
    """Ops and their attributes, without those of TensorFlow's inside ("_..."), which no file has.

    Read by a process of its own: two TensorFlows do not live in one.
    """
    process = subprocess.run(
        [sys.executable, "-P", __file__, folder, *kernels], check=True, stdout=subprocess.PIPE
    )
    from tensorflow.core.framework import op_def_pb2

    found = op_def_pb2.OpList.FromString(process.stdout).op
    return {
        op.name: [attribute.name for attribute in op.attr]
        for op in found
        if not op.name.startswith("_")
    }


def _print_op_list(folder: str, *kernels: str) -> None:
    # By its path: as a part of this package it would bring the TensorFlow that is installed.
    c_loader = runpy.run_path(str(Path(__file__).with_name("c_loader.py")))
    sys.stdout.buffer.write(c_loader["CLibrary"](folder, kernels).op_list())


if __name__ == "__main__":
    _print_op_list(*sys.argv[1:]) if sys.argv[1:] else main()
