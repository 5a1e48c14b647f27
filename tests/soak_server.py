"""Asks `albert-keras serve` for ten minutes and looks that nothing is lost and no memory grows.

    python -m tests.soak_server [--minutes 10] [--clients 6] [--seed 0]

Serves a small classifier and a small model that answers questions. Clients of both protocols send
batches of 1 to 16 rows, of texts from nothing to 400 words and contexts of up to 1,500, and every
few seconds a crowd comes that is larger than the queue. Every request must be answered, with the
row that belongs to it, as the SavedModel answers it alone and called directly, or be refused
because the queue is full. At the end the server's own counts must be the clients', and it must stop
with exit code 0. The memory of the server's process is measured every 5 s; its slope by least
squares, without the first third of the run, in which TensorFlow still meets new shapes, must be
below 1 MB a minute.
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
from albert_keras.export.loading import load_export
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from albert_keras.export import export_saved_model
from tests.served_kinds import LABELS, model_of
from tests.small_tokenizer import small_tokenizer

ROOT = Path(__file__).parents[1]
WORDS = "the quick brown fox jumps over a lazy dog und 1,204 Straßen 公园 \U0001f600 летом".split()
TOLERANCE = 1e-4  # sums in another order beside other rows
FLAT = 1.0  # MB a minute
CROWD = 60  # at once, of which the queue of 32 takes a part
Totals = collections.Counter


def texts(count: int, longest: int, draw: random.Random) -> list[str]:
    """Of 0 to `longest` words, as many short ones as long ones."""
    return [
        " ".join(draw.choices(WORDS, k=int(longest ** draw.random()) - 1)) for _ in range(count)
    ]


def rows_of(kind: str, draw: random.Random) -> list[dict[str, str]]:
    if kind == "classify":
        return [{"text": text} for text in texts(120, 400, draw)]
    contexts = texts(60, 1500, draw)
    return [{"question": draw.choice(WORDS), "context": context} for context in contexts]


def directly(signature, row: dict[str, str]) -> dict[str, np.ndarray]:
    outputs = signature(**{name: tf.constant([text]) for name, text in row.items()})
    return {name: value.numpy()[0] for name, value in outputs.items()}


def is_clear(answer: dict[str, np.ndarray]) -> bool:
    """Whether the best answer stays the best whatever the order of sums."""
    scores = answer["probabilities"] if "probabilities" in answer else answer["scores"]
    second, first = np.sort(scores)[-2:]
    return first - second > 10 * TOLERANCE


def wrong(expected: dict[str, np.ndarray], received: dict) -> bool:
    for name in ("label", "answer", "start", "end"):
        if name in expected and is_clear(expected):
            value = expected[name]
            if received[name] != (value.decode() if isinstance(value, bytes) else value):
                return True
    close = [
        np.allclose(received[name], expected[name], atol=TOLERANCE)
        for name in ("logits", "score")
        if name in expected
    ]
    return not all(close)


class Server:
    """`albert-keras serve` in a process of its own."""

    def __init__(self, *folders: Path):
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "albert_keras.cli", "serve", *map(str, folders)),
                *("--port", "0", "--grpc-port", "0"),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for line in self.process.stdout:
            print(line, end="")
            if found := re.match(r"http://[^:]+:(\d+)/ .*:(\d+)$", line):
                self.port, self.grpc_port = map(int, found.groups())
                return
        raise RuntimeError("the server did not start")

    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024

    def counted(self, code: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/monitoring/prometheus/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        sought = f'albert_keras_requests_total{{code="{code}"'
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(sought))


class Client:
    """Asks by one of the protocols, over one connection."""

    def __init__(self, server: Server, by_grpc: bool):
        self._by_grpc = by_grpc
        if by_grpc:
            self._channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
            self._service = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        else:
            self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

    def ask(self, model: str, rows: list[dict[str, str]]) -> list[dict] | None:
        """An answer for each row, None where the queue was full."""
        if not self._by_grpc:
            path = f"/v1/models/{model}:predict"
            self._connection.request("POST", path, json.dumps({"instances": rows}))
            response = self._connection.getresponse()
            answer = json.loads(response.read())
            if response.status == 503:
                return None
            if response.status != 200:
                raise RuntimeError(f"{response.status}: {answer}")
            return answer["predictions"]
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        for name in rows[0]:
            values = [row[name] for row in rows]
            request.inputs[name].CopyFrom(tf.make_tensor_proto(values, tf.string))
        try:
            outputs = self._service.Predict(request, timeout=120).outputs
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                return None
            raise
        columns = {name: tf.make_ndarray(proto) for name, proto in outputs.items()}
        return [
            {name: _text(values[number]) for name, values in columns.items()}
            for number in range(len(rows))
        ]

    def close(self) -> None:
        (self._channel if self._by_grpc else self._connection).close()


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


class Soak:
    """The clients and what came of their requests."""

    def __init__(self, server: Server, known: dict[str, list[tuple[dict, dict]]]):
        self.totals, self.seconds = Totals(), []
        self._server, self._known = server, known
        self._lock = threading.Lock()

    def ask(self, client: Client, draw: random.Random) -> None:
        model = draw.choice(sorted(self._known))
        chosen = draw.choices(self._known[model], k=draw.randint(1, 16))
        begun = time.monotonic()
        found = Totals(sent=1)
        try:
            answers = client.ask(model, [row for row, _ in chosen])
        except Exception as error:  # any: each is a request that was lost
            found["lost"] += 1
            print(f"lost: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            if answers is None:
                found["refused"] += 1
            else:
                found["answered"] += 1
                found["rows"] += len(chosen)
                found["wrong"] += len(answers) != len(chosen)
                pairs = zip(chosen, answers, strict=False)
                found["wrong"] += sum(wrong(expected, row) for (_, expected), row in pairs)
        with self._lock:
            self.totals += found
            if found["answered"]:
                self.seconds.append(time.monotonic() - begun)

    def go_on(self, number: int, end: float, seed: int) -> None:
        draw = random.Random(f"{seed}/{number}")
        client = Client(self._server, by_grpc=number % 2 == 0)
        while time.monotonic() < end:
            self.ask(client, draw)
        client.close()

    def come_in_crowds(self, end: float, seed: int) -> None:
        draw = random.Random(f"{seed}/crowd")
        with concurrent.futures.ThreadPoolExecutor(CROWD) as crowd:
            while time.monotonic() < end - 20:
                time.sleep(draw.uniform(2, 10))
                draws = [random.Random(draw.random()) for _ in range(CROWD)]
                list(crowd.map(self._come, draws))

    def _come(self, draw):
        client = Client(self._server, by_grpc=draw.random() < 0.5)
        self.ask(client, draw)
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        known = {}
        for kind in ("classify", "answer"):
            labels = LABELS if kind == "classify" else None
            folder = Path(scratch, kind)
            written = export_saved_model(model_of(kind), small_tokenizer(), folder, labels=labels)
            loaded = load_export(written)
            signature = loaded.signatures["serving_default"]
            known[kind] = [(row, directly(signature, row)) for row in rows_of(kind, draw)]
        server = Server(Path(scratch, "classify"), Path(scratch, "answer"))
        soak = Soak(server, known)
        begun = time.monotonic()
        end = begun + 60 * arguments.minutes
        clients = [
            threading.Thread(target=soak.go_on, args=(number, end, arguments.seed))
            for number in range(arguments.clients)
        ]
        clients.append(threading.Thread(target=soak.come_in_crowds, args=(end, arguments.seed)))
        for client in clients:
            client.start()
        memory, said = [], 0
        while any(client.is_alive() for client in clients):
            minutes = (time.monotonic() - begun) / 60
            memory.append((minutes, server.megabytes()))
            if minutes >= said:
                print(f"{minutes:4.1f} min {memory[-1][1]:7.1f} MB {dict(soak.totals)}", flush=True)
                said += 1
            time.sleep(5)
        counted = server.counted("OK"), server.counted("RESOURCE_EXHAUSTED")
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(60)
    settled = np.array([one for one in memory if one[0] >= arguments.minutes / 3])
    slope = np.polyfit(*settled.T, 1)[0]
    p50, p99 = np.percentile(soak.seconds, [50, 99])
    totals = soak.totals
    print(f"{dict(totals)}; the server counted {counted[0]} answered and {counted[1]} refused")
    print(f"p50 {p50:.3f} s, p99 {p99:.3f} s; exit code {code}")
    print(f"memory from {settled[0, 1]:.1f} to {settled[-1, 1]:.1f} MB: {slope:+.2f} MB a minute")
    good = totals["sent"] == totals["answered"] + totals["refused"] and not totals["wrong"]
    good &= counted == (totals["answered"], totals["refused"]) and code == 0 and slope < FLAT
    sys.exit(0 if good else "Not as it should be.")


if __name__ == "__main__":
    main()
