"""The files for TensorFlow Serving parse as its own, and the smoke test tells good from bad."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from albert_keras.export.server_config import write_server_config
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

# What exports say of themselves: a classifier, and a multiple choice.
CLASSIFY = {
    "inputs": {"text": ["string", [None]]},
    "outputs": {
        "label": ["string", [None]],
        "score": ["float32", [None]],
        "logits": ["float32", [None, 3]],
    },
}
REGRESS = {"inputs": {"text": ["string", [None]]}, "outputs": {"value": ["float32", [None]]}}
CHOOSE = {
    "inputs": {
        "context": ["string", [None]],
        "question": ["string", [None]],
        "options": ["string", [None, None]],
    },
    "outputs": {"choice": ["int32", [None]], "probabilities": ["float32", [None, None]]},
}
ROW = {"label": "ham", "score": 1, "logits": [0.5, -1.0, 2]}
ANSWERS = {
    "mail": [ROW, ROW],
    "stars": [1.5, 2],
    "race": [{"choice": 1, "probabilities": [0.5, 0.5]}] * 2,
}


def write_export(folder, signature, versions=(1,)):
    """The files of an export that its configuration is made from."""
    for version in versions:
        extra = folder / str(version) / "assets.extra"
        extra.mkdir(parents=True)
        (folder / str(version) / "saved_model.pb").write_bytes(b"")
        fields = {"signatures": {"serving_default": signature}}
        (extra / "metadata.json").write_text(json.dumps(fields))
    return folder


@pytest.fixture
def served(tmp_path):
    return {
        "mail": write_export(tmp_path / "served it's" / "mail", CLASSIFY, (9, 10)),
        "stars": write_export(tmp_path / "served it's" / "stars", REGRESS),
        "race": write_export(tmp_path / "served it's" / "race", CHOOSE),
    }


@pytest.fixture
def written(served, tmp_path):
    return write_server_config(served, tmp_path / "server")


def message_of(messages):
    """A class for the first of `messages`, {name: {field: (number, type)}}.

    The wheel of TensorFlow Serving's protocol buffers has not all of them.
    """
    file = descriptor_pb2.FileDescriptorProto(name="served.proto", package="served")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated = kind.startswith("repeated ")
            added = message.field.add(name=field, number=number, label=3 if repeated else 1)
            kind = kind.removeprefix("repeated ")
            if kind in messages:
                added.type, added.type_name = 11, f".served.{kind}"
            else:
                added.type = {"int64": 3, "bool": 8, "string": 9}[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    first = next(iter(messages))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"served.{first}"))()


# ---- the files ----


def test_models_config_is_tensorflow_servings(written):
    from tensorflow_serving.config import model_server_config_pb2

    text = (written / "models.config").read_text()
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    models = [
        (model.name, model.base_path, model.model_platform)
        for model in config.model_config_list.config
    ]
    assert models == [(name, f"/models/{name}", "tensorflow") for name in ("mail", "stars", "race")]
    # What is proposed in comments is right as well, with the versions that there are.
    proposed = "\n".join(
        line.replace("# ", "", 1) if "version_" in line else line for line in text.splitlines()
    )
    config = text_format.Parse(proposed, model_server_config_pb2.ModelServerConfig())
    [mail, stars, _] = config.model_config_list.config
    assert list(mail.model_version_policy.specific.versions) == [9, 10]
    assert dict(mail.version_labels) == {"stable": 9, "canary": 10}
    assert dict(stars.version_labels) == {"stable": 1, "canary": 2}


def test_batching_config_is_tensorflow_servings(written):
    # tensorflow_serving/servables/tensorflow/session_bundle_config.proto
    config = message_of(
        {
            "BatchingParameters": {
                "max_batch_size": (1, "Int64Value"),
                "batch_timeout_micros": (2, "Int64Value"),
                "max_enqueued_batches": (3, "Int64Value"),
                "num_batch_threads": (4, "Int64Value"),
                "allowed_batch_sizes": (6, "repeated int64"),
                "pad_variable_length_inputs": (7, "bool"),
            },
            "Int64Value": {"value": (1, "int64")},
        }
    )
    text_format.Parse((written / "batching.config").read_text(), config)
    sizes = list(config.allowed_batch_sizes)
    assert sizes == sorted(sizes) and sizes[-1] == config.max_batch_size.value
    assert config.num_batch_threads.value == os.cpu_count()
    assert config.HasField("batch_timeout_micros") and config.batch_timeout_micros.value == 0
    assert not config.pad_variable_length_inputs


def test_batching_config_warns_of_options_where_there_are_some(written, served, tmp_path):
    assert "# race: requests" in (written / "batching.config").read_text()
    del served["race"]
    other = write_server_config(served, tmp_path / "other")
    assert "options" not in (other / "batching.config").read_text()


def test_monitoring_config_is_tensorflow_servings(written):
    # tensorflow_serving/config/monitoring_config.proto
    config = message_of(
        {
            "MonitoringConfig": {"prometheus_config": (1, "PrometheusConfig")},
            "PrometheusConfig": {"enable": (1, "bool"), "path": (2, "string")},
        }
    )
    text_format.Parse((written / "monitoring.config").read_text(), config)
    assert config.prometheus_config.enable
    assert config.prometheus_config.path == "/monitoring/prometheus/metrics"


def test_what_cannot_be_configured_is_refused(served, tmp_path):
    with pytest.raises(ValueError, match="must name a model or more. Received: none"):
        write_server_config({}, tmp_path / "x")
    with pytest.raises(ValueError, match="part of addresses.*Received: 'a/b'"):
        write_server_config({"a/b": served["mail"]}, tmp_path / "x")
    with pytest.raises(ValueError, match="Received: the version .*/9. Name .*/mail"):
        write_server_config({"mail": served["mail"] / "9"}, tmp_path / "x")
    with pytest.raises(ValueError, match="no folder with a comma"):
        write_server_config({"mail": write_export(tmp_path / "a,b", CLASSIFY)}, tmp_path / "x")
    ids = {"inputs": {"token_ids": ["int32", [None, 40]]}, "outputs": {}}
    with pytest.raises(ValueError, match="asks strings. Received: .* input token_ids is int32"):
        write_server_config({"ids": write_export(tmp_path / "ids", ids)}, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    (tmp_path / "x").mkdir()
    with pytest.raises(ValueError, match="must not exist yet"):
        write_server_config(served, tmp_path / "x")


# ---- the smoke test, with a docker that is none ----


@pytest.fixture
def smoke_test(written, tmp_path):
    """Runs the script with tests/fake_docker.py as docker, which serves `answers`."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    fake = Path(__file__).with_name("fake_docker.py")
    docker.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{fake}" "{tmp_path}" "$@"\n')
    docker.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(answers, **fake):
        (tmp_path / "fake.json").write_text(json.dumps({"answers": answers, **fake}))
        process = subprocess.run(
            ["bash", str(written / "smoke_test.sh")],
            env={**os.environ, "PATH": f"{docker.parent}:{os.environ['PATH']}", "PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        calls = (tmp_path / "calls.txt").read_text().splitlines()
        assert calls[0].startswith("run") and calls[-1].startswith("rm"), "it must stop the server"
        return process

    return run


def test_the_smoke_test_asks_every_model_and_stops_the_server(
    smoke_test, written, served, tmp_path
):
    process = smoke_test(ANSWERS)
    assert process.returncode == 0, process.stderr
    assert [line.split(":")[0] for line in process.stdout.splitlines()[:-1]] == sorted(ANSWERS)
    [command] = [json.loads(line[4:]) for line in (tmp_path / "run.txt").read_text().splitlines()]
    mounted = dict(
        [part.split("=", 1)[1] for part in value.split(",")[1:3]][::-1]
        for value in command
        if value.startswith("type=bind")
    )
    expected = {f"/models/{name}": str(folder) for name, folder in served.items()}
    assert mounted == {"/config": str(written), **expected}
    for flag in ("model_config_file=/config/models.config", "enable_batching"):
        assert f"--{flag}" in command
    for file in ("models", "batching", "monitoring"):
        assert any(f"/config/{file}.config" in part for part in command)
        assert (written / f"{file}.config").is_file()
    asked = json.loads((tmp_path / "asked.json").read_text())
    assert asked["mail"]["instances"][1] == {"text": ""}
    assert set(asked["race"]["instances"][0]) == {"context", "question", "options"}


@pytest.mark.parametrize(
    "model,answer,message",
    [
        ("mail", [ROW], "mail: 1 answers"),
        ("mail", [ROW, {**ROW, "logits": [0.5, 1.0]}], "mail: logits is"),
        ("mail", [ROW, {**ROW, "score": "high"}], "mail: score is high"),
        ("mail", [ROW, {"label": "ham", "score": 1}], "mail: the outputs are"),
        ("race", [{"choice": 0.5, "probabilities": [1]}] * 2, "race: choice is 0.5"),
        ("stars", [1.5, [2]], "stars: value is"),
        ("stars", None, "stars: HTTP Error 400"),
    ],
)
def test_the_smoke_test_fails_on_another_answer(smoke_test, model, answer, message):
    process = smoke_test({**ANSWERS, model: answer})
    assert process.returncode == 1 and message in process.stderr
    assert "the log of the server" in process.stderr


def test_the_smoke_test_fails_when_the_server_ends_or_counts_nothing(smoke_test, tmp_path):
    process = smoke_test(ANSWERS, ends=True)
    assert process.returncode == 1 and "mail: the server has ended" in process.stderr
    (tmp_path / "calls.txt").unlink()
    process = smoke_test(ANSWERS, metrics="")
    assert process.returncode == 1 and "no metrics" in process.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_smoke_test_is_sound_bash(written):
    process = subprocess.run(["shellcheck", written / "smoke_test.sh"], capture_output=True)
    assert process.returncode == 0, process.stdout.decode()
