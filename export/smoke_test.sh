#!/usr/bin/env bash
# Starts TensorFlow Serving in Docker with the models of this folder, asks each a question over REST,
# checks the shape of the answer, and stops it. Exits with 0 if every model has answered.
#
#     bash smoke_test.sh
#     IMAGE=tensorflow/serving:2.19.1 PORT=9501 bash smoke_test.sh
#
# Needs docker and python3.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=smoke-test-$$
port=${PORT:-8501}
# The folder of each model, with its numbered versions.
mounts=(
@MOUNTS@
)

stop() {
    status=$?
    if [[ $status != 0 ]]; then docker logs --tail 50 "$name" >&2 || true; fi
    docker rm --force "$name" >/dev/null || true
    exit "$status"
}
trap stop EXIT

docker run --detach --name "$name" --publish "127.0.0.1:$port:8501" \
    --mount "type=bind,source=$here,target=/config,readonly" "${mounts[@]}" \
    "${IMAGE:-tensorflow/serving:latest}" \
    --model_config_file=/config/models.config \
    --enable_batching --batching_parameters_file=/config/batching.config \
    --monitoring_config_file=/config/monitoring.config >/dev/null

python3 - "$here/questions" "http://127.0.0.1:$port" "$name" <<'PYTHON'
import json
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

questions, server, container = sys.argv[1:]
# Nothing of this goes through a proxy.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
deadline = time.monotonic() + 300


def ask(route, body=None):
    data = None if body is None else json.dumps(body).encode()
    with opener.open(urllib.request.Request(server + route, data), timeout=60) as response:
        return response.read().decode()


def is_ready(model):
    try:
        versions = json.loads(ask(f"/v1/models/{model}"))["model_version_status"]
    except (OSError, ValueError):  # it does not listen yet, or does not know the model yet
        return False
    return any(version["state"] == "AVAILABLE" for version in versions)


def is_running():
    command = ["docker", "inspect", "--format", "{{.State.Running}}", container]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() == "true"


def fits(value, dtype, shape):
    """Whether a JSON value is an array of the shape, in which null is any size."""
    if not shape:
        kinds = {"string": str, "int32": int, "float32": (int, float)}
        return isinstance(value, kinds[dtype]) and not isinstance(value, bool)
    return (
        isinstance(value, list)
        and shape[0] in (None, len(value))
        and all(fits(part, dtype, shape[1:]) for part in value)
    )


for path in sorted(pathlib.Path(questions).glob("*.json")):
    model = path.stem
    while not is_ready(model):
        if not is_running():
            sys.exit(f"{model}: the server has ended")
        if time.monotonic() > deadline:
            sys.exit(f"{model}: it was not ready in time")
        time.sleep(0.5)
    question = json.loads(path.read_text())
    try:
        answers = json.loads(ask(f"/v1/models/{model}:predict", question["request"]))["predictions"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{model}: {error} {error.read().decode()}")
    if len(answers) != len(question["request"]["instances"]):
        sys.exit(f"{model}: {len(answers)} answers, expected one for each instance")
    outputs = question["outputs"]
    for answer in answers:
        if len(outputs) == 1:  # the server then leaves the name out
            answer = {name: answer for name in outputs}
        if set(answer) != set(outputs):
            sys.exit(f"{model}: the outputs are {sorted(answer)}, expected {sorted(outputs)}")
        for name, (dtype, shape) in outputs.items():
            if not fits(answer[name], dtype, shape[1:]):
                sys.exit(f"{model}: {name} is {answer[name]}, expected {dtype} {shape[1:]}")
    print(f"{model}: {json.dumps(answers[0], ensure_ascii=False)}")
if ":tensorflow:" not in ask("/monitoring/prometheus/metrics"):
    sys.exit("/monitoring/prometheus/metrics: it has no metrics of TensorFlow")
PYTHON
echo "Every model has answered."
