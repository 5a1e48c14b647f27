"""Starts a command as several workers on this machine, each with its own TF_CONFIG.

    python examples/pretrain_multiworker.py --workers 2 -- albert-keras pretrain \\
        --strategy multiworker --records records --vocab vocabulary --out run --batch 64 ...

It is for trying out what several machines do; on those there is nothing to start but the command
itself. With two of them, which see the same folders under the same names, the first runs

    export TF_CONFIG='{"cluster": {"worker": ["host1:12345", "host2:12345"]},
                       "task": {"type": "worker", "index": 0}}'
    albert-keras pretrain --strategy multiworker --records records --vocab vocabulary --out run ...

and the second the same with "index": 1. Every worker has a copy of the weights and all of its GPUs,
or its CPU; --batch is the batch of all of them together, and must be a multiple of all devices. The
first worker writes the run's folder; each keeps its own saved states there.

A worker that dies stops the others, within about 10 seconds and with a message. Start all of them
again with --resume, and they go on from the newest step that all have saved. They wait up to an
hour for one that never comes.

Every worker reads and masks every batch and keeps its part of the rows, so the work of the input
does not shrink with more workers; it is the same batch, row for row, that one device would have.

Time and score: not measured on several machines. Two workers on one machine give the losses of one
device; `tests/test_strategy.py` holds it.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time


def free_ports(count):
    """Ports of this machine that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def started(command, workers):
    """The processes of `workers` workers that run `command`."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(workers)]}
    configs = [
        {"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(workers)
    ]
    return [
        subprocess.Popen(command, env={**os.environ, "TF_CONFIG": json.dumps(config)})
        for config in configs
    ]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("command", nargs="+", help="what each of them runs, behind --")
    arguments = parser.parse_args(argv)
    processes = started(arguments.command, arguments.workers)
    codes = ended(processes)
    for index, code in enumerate(codes):
        if code:
            print(f"Worker {index} ended with {code}.", file=sys.stderr)
    return max(map(abs, codes))


def ended(processes):
    """Their exit codes, when all have ended; a minute after one has failed, the rest is killed."""
    failed = None
    while any(process.poll() is None for process in processes):
        try:
            time.sleep(0.2)
        except KeyboardInterrupt:
            pass  # it reaches the workers as well: they save, and end
        if failed is None and any(process.poll() for process in processes):
            failed = time.monotonic()
        if failed is not None and time.monotonic() - failed > 60:
            for process in processes:
                process.kill()
    return [process.returncode for process in processes]


if __name__ == "__main__":
    sys.exit(main())
