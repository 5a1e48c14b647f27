"""The development server under load, at its limits and at its end; and `albert-keras serve`."""

import concurrent.futures
import importlib
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("starlette", reason="needs the extra `serve`")

import grpc  # noqa: E402
from albert_keras.export.loading import load_export  # noqa: E402
from albert_keras.export.server import Limits, Models  # noqa: E402
from albert_keras.export.server.server import listen  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from tensorflow_serving.apis import predict_pb2  # noqa: E402

from albert_keras.export import export_saved_model, saved_model  # noqa: E402
from tests import served_models  # noqa: E402
from tests.running_server import RunningServer  # noqa: E402
from tests.served_kinds import LABELS, model_of  # noqa: E402
from tests.small_tokenizer import small_tokenizer  # noqa: E402

pytestmark = pytest.mark.both_kerases

ROOT = Path(__file__).parents[1]
WORKERS = 2
ONE = {"instances": ["a"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    served_models.save_labels(folder / "mail" / "1")
    served_models.save_slow(folder / "slow" / "3")
    return folder


class Gate:
    """A model whose answers wait until they are let through."""

    def __init__(self, models):
        self._open = threading.Event()
        self.begun = threading.Semaphore(0)
        model = models.find("mail")
        signature = model.signatures["serving_default"]

        def function(**inputs):
            self.begun.release()
            assert self._open.wait(60)
            return signature.function(**inputs)

        model.signatures["serving_default"] = signature._replace(function=function)

    def open(self):
        self._open.set()

    def wait_for(self, count):
        for _ in range(count):
            assert self.begun.acquire(timeout=60)


class Gated:
    """A server with a gate, and clients in threads."""

    def __init__(self, folder, limits):
        models = Models([folder / "mail"])
        self.gate = Gate(models)
        self.server = RunningServer(models, limits)
        self.clients = concurrent.futures.ThreadPoolExecutor(16)

    def post(self):
        return self.clients.submit(self.server.post, "mail:predict", ONE)


@pytest.fixture
def gated(folder):
    made = []

    def start(limits):
        made.append(Gated(folder, limits))
        return made[-1]

    yield start
    for one in made:
        one.gate.open()
        one.clients.shutdown()
        one.server.stop()


def until(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that in 30 s")


def predict(text=b"a"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "mail"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([text]))
    return request


def measured(server, sample, **labels):
    """The value of one line of the metrics, None where there is none."""
    for family in text_string_to_metric_families(server.metrics()):
        for line in family.samples:
            if line.name == sample and line.labels == labels:
                return line.value
    return None


# ---- load and limits ----


def test_many_clients_of_both_protocols_get_their_own_answers(folder):
    server = RunningServer(Models([folder / "mail"]), Limits(queue=200))
    try:
        with server.channel() as (service, _), concurrent.futures.ThreadPoolExecutor(12) as clients:

            def by_http(length):
                [row] = server.post("mail:predict", {"instances": ["x" * length]})[1]["predictions"]
                return row["probabilities"][1]

            def by_grpc(length):
                outputs = service.Predict(predict(b"x" * length)).outputs
                return float(tf.make_ndarray(outputs["probabilities"])[0, 1])

            lengths = range(100)
            asked = [clients.submit(by, n) for n in lengths for by in (by_http, by_grpc)]
            answers = np.array([one.result() for one in asked]).reshape(100, 2)
        expected = [1 - 1 / (1 + n) for n in lengths]
        np.testing.assert_allclose(answers, np.stack([expected, expected], 1), atol=1e-6)
        ended = {"model": "mail", "method": "predict"}
        assert measured(server, "albert_keras_requests_total", code="OK", **ended) == 200
        assert measured(server, "albert_keras_rows_total", model="mail") == 200
        assert measured(server, "albert_keras_request_seconds_count", **ended) == 200
    finally:
        server.stop()


def test_who_comes_when_the_queue_is_full_is_refused_at_once(gated):
    crowd = gated(Limits(queue=3))
    served = [crowd.post() for _ in range(WORKERS + 3)]
    crowd.gate.wait_for(WORKERS)
    until(lambda: measured(crowd.server, "albert_keras_queue_length") == 3)
    assert measured(crowd.server, "albert_keras_running") == WORKERS
    begun = time.monotonic()
    status, answer = crowd.server.post("mail:predict", ONE)
    assert status == 503 and "At most 3 requests may wait" in answer["error"]
    with crowd.server.channel() as (service, _), pytest.raises(grpc.RpcError) as error:
        service.Predict(predict())
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert time.monotonic() - begun < 5, "it waited"
    assert crowd.server.get("mail")[0] == 200, "status needs no turn"
    crowd.gate.open()
    assert [one.result(60)[0] for one in served] == [200] * (WORKERS + 3)
    refused = {"model": "mail", "method": "predict", "code": "RESOURCE_EXHAUSTED"}
    assert measured(crowd.server, "albert_keras_requests_total", **refused) == 2
    assert measured(crowd.server, "albert_keras_queue_length") == 0


def test_an_answer_that_takes_too_long_is_504_and_its_thread_stays_taken(gated):
    crowd = gated(Limits(seconds=0.5, queue=1))
    for number in range(1, WORKERS + 1):
        status, answer = crowd.server.post("mail:predict", ONE)
        assert status == 504 and "0.5 s" in answer["error"]
        crowd.gate.wait_for(1)
        assert measured(crowd.server, "albert_keras_running") == number
    # Now they wait, and leave the queue when their time is up.
    for _ in range(3):
        assert crowd.server.post("mail:predict", ONE)[0] == 504
    assert measured(crowd.server, "albert_keras_queue_length") == 0
    crowd.gate.open()
    until(lambda: measured(crowd.server, "albert_keras_running") == 0)
    assert crowd.server.post("mail:predict", ONE)[0] == 200
    crowd.gate.wait_for(1)
    assert not crowd.gate.begun.acquire(blocking=False), "who had left the queue was computed"


def test_at_its_deadline_a_grpc_client_leaves_the_queue(gated):
    crowd = gated(Limits())
    served = [crowd.post() for _ in range(WORKERS)]
    crowd.gate.wait_for(WORKERS)
    with crowd.server.channel() as (service, _):
        late = service.Predict.future(predict(), timeout=1)
        until(lambda: measured(crowd.server, "albert_keras_queue_length") == 1)
        assert late.exception(30).code() == grpc.StatusCode.DEADLINE_EXCEEDED
        until(lambda: measured(crowd.server, "albert_keras_queue_length") == 0)
        labels = {"model": "mail", "method": "predict", "code": "CANCELLED"}
        assert measured(crowd.server, "albert_keras_requests_total", **labels) == 1
        crowd.gate.open()
        assert [one.result(60)[0] for one in served] == [200] * WORKERS
        assert service.Predict(predict()).outputs["score"].float_val == [0.5]
    crowd.gate.wait_for(1)
    assert not crowd.gate.begun.acquire(blocking=False), "who had left the queue was computed"


def test_an_http_client_that_hangs_up_leaves_the_queue(gated):
    crowd = gated(Limits())
    served = [crowd.post() for _ in range(WORKERS)]
    crowd.gate.wait_for(WORKERS)
    body = json.dumps(ONE).encode()
    head = (
        f"POST /v1/models/mail:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", crowd.server.port), timeout=30) as client:
        client.sendall(head.encode() + body)
        until(lambda: measured(crowd.server, "albert_keras_queue_length") == 1)
    until(lambda: measured(crowd.server, "albert_keras_queue_length") == 0)
    labels = {"model": "mail", "method": "predict", "code": "CANCELLED"}
    until(lambda: measured(crowd.server, "albert_keras_requests_total", **labels) == 1)
    crowd.gate.open()
    assert [one.result(60)[0] for one in served] == [200] * WORKERS
    assert crowd.server.post("mail:predict", ONE)[0] == 200
    crowd.gate.wait_for(1)
    assert not crowd.gate.begun.acquire(blocking=False), "who had hung up was computed"


def test_no_answer_waits_for_an_acknowledgement():
    listening = listen("127.0.0.1", 0)
    with listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_a_client_that_never_ends_its_request_is_given_up(gated):
    crowd = gated(Limits(seconds=0.5))
    with socket.create_connection(("127.0.0.1", crowd.server.port), timeout=30) as client:
        client.sendall(
            b"POST /v1/models/mail:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
        )
        assert b" 504 " in client.recv(100)


def test_a_name_that_no_model_has_makes_no_series_of_its_own(gated):
    crowd = gated(Limits())
    for name in ("a", "b", "c"):
        assert crowd.server.get(name)[0] == 404
    unknown = {"model": "", "method": "getmodelstatus", "code": "NOT_FOUND"}
    assert measured(crowd.server, "albert_keras_requests_total", **unknown) == 3
    assert 'model="a"' not in crowd.server.metrics()


def test_a_failure_of_ours_is_500_without_its_insides(gated, capfd):
    crowd = gated(Limits())
    model = crowd.server._models.find("mail")
    model.signatures["serving_default"] = model.signatures["serving_default"]._replace(
        function=lambda **inputs: {}["secret"]
    )
    status, answer = crowd.server.post("mail:predict", ONE)
    assert status == 500 and "secret" not in answer["error"]
    assert "KeyError: 'secret'" in capfd.readouterr().err


def test_the_metrics_are_prometheus_text(gated):
    crowd = gated(Limits())
    crowd.server.get("mail")
    status, headers, body = crowd.server.ask("GET", "/monitoring/prometheus/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name for family in text_string_to_metric_families(body.decode())}
    assert {"albert_keras_requests", "albert_keras_request_seconds"} <= families
    assert {"albert_keras_rows", "albert_keras_queue_length", "albert_keras_running"} <= families


# ---- the end ----


def test_a_stop_answers_what_has_begun_and_takes_nothing_new(folder):
    crowd = Gated(folder, Limits())
    begun = [crowd.post() for _ in range(WORKERS + 2)]  # two of them still wait
    with crowd.server.channel() as (service, _):
        by_grpc = service.Predict.future(predict())
        crowd.gate.wait_for(WORKERS)
        until(lambda: measured(crowd.server, "albert_keras_queue_length") == 3)
        stopping = crowd.clients.submit(crowd.server.stop)

        def refused():
            try:
                socket.create_connection(("127.0.0.1", crowd.server.port), timeout=5).close()
            except OSError:
                return True

        until(refused)
        with pytest.raises(grpc.RpcError) as error:
            service.Predict(predict(), timeout=5)
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        crowd.gate.open()
        assert stopping.result(30) is False
        assert [one.result(5)[0] for one in begun] == [200] * len(begun)
        assert by_grpc.result(5).outputs["score"].float_val == [0.5]
    crowd.clients.shutdown()


def test_a_stop_takes_no_longer_than_its_grace(folder):
    crowd = Gated(folder, Limits(grace=0.5))
    with crowd.server.channel() as (service, _):
        by_http, by_grpc = crowd.post(), service.Predict.future(predict())
        crowd.gate.wait_for(2)
        begun = time.monotonic()
        assert crowd.server.stop() is True
        assert time.monotonic() - begun < 5
        status, answer = by_http.result(5)
        assert status == 503 and "stopped" in answer["error"]
        assert by_grpc.exception(5).code() == grpc.StatusCode.UNAVAILABLE
    crowd.gate.open()
    crowd.clients.shutdown()


# ---- folders and the command ----


def test_the_highest_number_is_the_newest_version(folder, tmp_path):
    for version in ("9", "10", "1old"):
        (tmp_path / "mail").mkdir(exist_ok=True)
        os.symlink(folder / "mail" / "1", tmp_path / "mail" / version)
    os.symlink(tmp_path / "mail", tmp_path / "link")
    models = Models([tmp_path / "mail", tmp_path / "link"])
    assert models.names == ["mail", "link"]
    assert [model.version for model in models.versions("link")] == [10, 9]


def test_folders_that_cannot_be_served_are_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="one version, .*Give the folder that it is in"):
        Models([folder / "mail" / "1"])
    with pytest.raises(ValueError, match="'mail' twice"):
        Models([folder / "mail", folder / "." / "mail"])
    with pytest.raises(ValueError, match="numbered versions"):
        Models([tmp_path])
    (tmp_path / "a:b").mkdir()
    with pytest.raises(ValueError, match="colon"):
        Models([tmp_path / "a:b"])
    (tmp_path / "cut" / "1").mkdir(parents=True)
    (tmp_path / "cut" / "1" / "saved_model.pb").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="damaged or cut off"):
        Models([tmp_path / "cut"])


def test_a_model_is_served_where_keras_cannot_be_imported(folder):
    code = (
        "import sys; sys.modules |= {'keras': None, 'tf_keras': None};"
        "from albert_keras.export.server import Models;"
        f"signature = Models([{str(folder / 'mail')!r}]).find('mail').signature();"
        "import tensorflow as tf; print(signature.function(text=tf.constant(['a']))['score'])"
    )
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "0"}
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert "[0.5]" in process.stdout, process.stderr


def test_what_export_writes_is_served_as_the_saved_model_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "check_export", lambda *arguments: {})  # it takes seconds
    written = export_saved_model(
        model_of("classify"), small_tokenizer(), tmp_path / "mail", labels=LABELS
    )
    texts = ["The quick brown fox.", "", "Straße \U0001f600", "a longer one " * 100]
    loaded = load_export(written)
    direct = loaded.signatures["serving_default"](text=tf.constant(texts))
    server = RunningServer(Models([tmp_path / "mail"]), Limits())
    try:
        status, answer = server.post("mail:predict", {"inputs": texts})
        assert status == 200 and set(answer["outputs"]) == set(direct)
        labels = [label.decode() for label in direct["label"].numpy()]
        assert answer["outputs"]["label"] == labels and len(set(labels)) > 1
        np.testing.assert_array_equal(
            np.array(answer["outputs"]["logits"], np.float32), direct["logits"].numpy()
        )
        request = {"signature_name": "classify", "examples": [{"text": text} for text in texts]}
        results = server.post("mail:classify", request)[1]["results"]
        assert [max(row, key=lambda entry: entry[1])[0] for row in results] == labels
        [described] = json.loads(server.ask("GET", "/models")[2])
        assert described["kind"] == "classify" and described["labels"] == LABELS
        assert described["signatures"]["serving_default"] == {"text": 1}
    finally:
        server.stop()


class Command:
    """`albert-keras serve` in a process of its own."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "albert_keras.cli", "serve"),
                *map(str, arguments),
                *("--port", "0", "--grpc-port", "0"),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("http://"):
                break

    @property
    def port(self):
        return int(re.search(r"http://127\.0\.0\.1:(\d+)/", self.lines[-1])[1])

    post = RunningServer.post
    ask = RunningServer.ask

    def stop(self, number):
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=60)
        return self.process.returncode, output, errors


def test_sigterm_in_the_middle_of_a_request_ends_the_command_after_its_answer(folder):
    command = Command(folder / "mail", folder / "slow")
    assert "development" in command.lines[0] and "TensorFlow Serving" in command.lines[0]
    assert command.lines[1:3] == ["mail: version 1", "slow: version 3"]
    with concurrent.futures.ThreadPoolExecutor() as clients:
        slow = clients.submit(command.post, "slow:predict", {"instances": ["100000"]})
        until(lambda: "albert_keras_running 1.0" in RunningServer.metrics(command))
        code, output, errors = command.stop(signal.SIGTERM)
        assert slow.result() == (200, {"predictions": [100000.0]})
    assert (code, output, errors) == (0, "Stopped.\n", "")


def test_ctrl_c_ends_the_command(albert_keras, folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def interrupt():
        def answers():
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
            except OSError:
                return False
            return True

        until(answers)
        os.kill(os.getpid(), signal.SIGINT)

    client = threading.Thread(target=interrupt)
    client.start()
    code, output, errors = albert_keras(
        *("serve", folder / "mail", "--port", port, "--grpc-port", 0)
    )
    client.join()
    assert code == 0 and output.endswith("Stopped.\n"), errors


@pytest.mark.parametrize(
    "arguments,rule",
    [
        (["--timeout", "0"], "--timeout must be above 0"),
        (["--host", "192.0.2.1", "--port", "0"], "an address of this machine"),
        (["--max-rows", "0"], "--max-rows"),
    ],
)
def test_a_mistake_on_the_command_line_is_exit_code_2(albert_keras, folder, arguments, rule):
    code, _, errors = albert_keras("serve", folder / "mail", *arguments)
    assert code == 2 and rule in errors and "Traceback" not in errors


def test_a_port_that_is_taken_is_exit_code_2(albert_keras, folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, errors = albert_keras("serve", folder / "mail", "--port", port)
        assert code == 2 and f"port {port}" in errors
        code, _, errors = albert_keras(
            *("serve", folder / "mail", "--port", 0, "--grpc-port", port)
        )
        assert code == 2 and f"port {port}" in errors


def test_the_help_says_that_it_is_for_development(albert_keras):
    code, output, _ = albert_keras("serve", "--help")
    assert code == 0 and "for development" in output and "TensorFlow Serving" in output


def test_without_the_extra_the_command_says_what_to_install(monkeypatch):
    from albert_keras.export import server

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"pip install 'albert-keras\[serve\]'"):
        importlib.reload(server)


# ---- the client in examples/ ----


def test_the_example_client_gives_the_same_answers_by_both_protocols(folder):
    client = runpy.run_path(str(ROOT / "examples" / "serving" / "client.py"))
    server = RunningServer(Models([folder / "mail"]), Limits())
    try:
        rows = [{"text": "abc"}, {"text": ""}]
        answers = client["ask_by_rest"](f"localhost:{server.port}", "mail", rows)
        assert [row["label"] for row in answers] == served_models.LABELS[::-1]
        assert [row["score"] for row in answers] == [0.75, 1.0]
        assert client["ask_by_grpc"](f"localhost:{server.grpc_port}", "mail", rows) == answers
        with pytest.raises(RuntimeError, match="404: .*'mail'"):
            client["ask_by_rest"](f"localhost:{server.port}", "post", rows)
        with pytest.raises(RuntimeError, match="NOT_FOUND: .*'mail'"):
            client["ask_by_grpc"](f"localhost:{server.grpc_port}", "post", rows)
    finally:
        server.stop()


def test_the_example_client_is_a_command_that_needs_no_library(folder):
    server = RunningServer(Models([folder / "mail"]), Limits())
    try:
        process = subprocess.run(
            [
                *(sys.executable, "-I", "-S", ROOT / "examples" / "serving" / "client.py"),
                *("rest", "mail", f"localhost:{server.port}", "text=abc"),
            ],
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        assert json.loads(process.stdout)["label"] == served_models.LABELS[1]
    finally:
        server.stop()
