"""write_server_config: the files that start one TensorFlow Serving for several exports."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from albert_keras.json_file import read_json, write_json
from albert_keras.new_file import write_file
from albert_keras.new_folder import new_folder
from albert_keras.served_folder import SIGNATURE, versions_in

# What the smoke test asks, as every input: a text with all that a kind of model may look for, and
# an empty one.
_TEXTS = ("The [MASK] was late, so we took the bus.", "")
_OPTIONS = ("The bus.", "The train.")

_MODEL = """  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    # The highest version answers. To serve several, and to give them names that clients can ask
    # for (/v1/models/{name}/labels/canary:predict):
    # model_version_policy {{ specific {{ versions: {stable} versions: {canary} }} }}
    # version_labels {{ key: "stable" value: {stable} }}
    # version_labels {{ key: "canary" value: {canary} }}
    # A label must be of a version that is loaded, so a new version is loaded first and named then.
  }}
"""
_BATCHING = """\
# Requests that arrive together are computed together. On a CPU that gains little (a fifth was
# measured for ALBERT-base on two cores); on a GPU raise batch_timeout_micros to 1000 and measure.
max_batch_size {{ value: 32 }}
batch_timeout_micros {{ value: 0 }}
# As many as the server has cores; this machine has {cores}.
num_batch_threads {{ value: {cores} }}
# More requests than this in the queue are refused, so that nobody waits for ever.
max_enqueued_batches {{ value: 100 }}
# Sizes in between are filled up, so that there are few shapes to prepare for.
{sizes}
# Without pad_variable_length_inputs, on purpose: it pads with the first number that it meets, and a
# padding mask would then say that padding is text. Strings have no lengths that could differ.
"""
_OPTIONS_DIFFER = """\
# {names}: requests that are batched must have the same number of options. Fill up with "".
"""
_MONITORING = """\
# Metrics for Prometheus, on the port of REST.
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""


def write_server_config(served: Mapping[str, str | Path], out: str | Path) -> Path:
    """Writes the configuration of a TensorFlow Serving for exports, and a test of it.

        models.config       a block a model: several widths, or several tasks, from one server
        batching.config     how requests are put together
        monitoring.config   where the metrics are
        smoke_test.sh       starts the server with these in Docker, asks, checks, and stops it
        questions/NAME.json what the test asks each model, and the shape of the answer

    The server reads the three from `/config`, and the models from `/models/NAME`.

    Args:
        served: by the model's name, letters, digits and `_.-`, the folder of its versions.
        out: the folder to make.

    Returns:
        `out`.

    Raises:
        ValueError: `out` exists, there are no models, a name is another one, or a folder has no
            versions of `export_saved_model`.

    Example:

    >>> write_server_config({"base": "served/base", "large": "served/large"}, "server")
    PosixPath('server')

    Reference: https://www.tensorflow.org/tfx/serving/serving_config
    """
    out = Path(out)
    if not served:
        raise ValueError("`served` must name a model or more. Received: none.")
    for name in served:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
            raise ValueError(
                "A model's name is part of addresses: letters, digits, `_`, `.` and `-`. Received: "
                f"{name!r}."
            )
    versions = {name: _versions_of(folder) for name, folder in served.items()}
    signatures = {name: _signature_of(paths[-1]) for name, paths in versions.items()}
    folders = {name: Path(folder).resolve() for name, folder in served.items()}
    for path in (*folders.values(), out.resolve()):
        if re.search('[,"\n]', str(path)):
            raise ValueError(
                f"Docker mounts no folder with a comma or a quote in its path. Received: {path}."
            )
    with new_folder(out) as partial:
        write_file(partial / "models.config", _models_config(versions))
        write_file(partial / "batching.config", _batching_config(signatures))
        write_file(partial / "monitoring.config", _MONITORING)
        script = Path(__file__).with_name("smoke_test.sh").read_text()
        mounts = (
            f"type=bind,source={folder},target=/models/{name},readonly"
            for name, folder in folders.items()
        )
        lines = "\n".join(f"    --mount {shlex.quote(mount)}" for mount in mounts)
        write_file(partial / "smoke_test.sh", script.replace("@MOUNTS@", lines))
        (partial / "questions").mkdir()
        for name, signature in signatures.items():
            write_json(partial / "questions" / f"{name}.json", _question(signature))
    return out


def _versions_of(folder):
    folder, versions = Path(folder), versions_in(folder)
    if versions == [folder]:
        raise ValueError(
            "A server takes the folder of a model's versions. Received: the version "
            f"{folder}. Name {folder.resolve().parent}."
        )
    return versions


def _signature_of(version):
    path = version / "assets.extra" / "metadata.json"
    signature = read_json(path, keys=["signatures"])["signatures"][SIGNATURE]
    for name, (dtype, shape) in signature["inputs"].items():
        if dtype != "string" or len(shape) > 2:
            raise ValueError(
                f"A smoke test asks strings. Received: {path}, whose input {name} is {dtype} of "
                f"the shape {shape}."
            )
    return signature


def _question(signature):
    def value(shape, text):
        return text if len(shape) == 1 else list(_OPTIONS)

    instances = [
        {name: value(shape, text) for name, (_, shape) in signature["inputs"].items()}
        for text in _TEXTS
    ]
    return {"request": {"instances": instances}, "outputs": signature["outputs"]}


def _models_config(versions):
    blocks = []
    for name, paths in versions.items():
        stable = int(paths[-2 if len(paths) > 1 else -1].name)
        canary = int(paths[-1].name) if len(paths) > 1 else stable + 1
        blocks.append(_MODEL.format(name=name, stable=stable, canary=canary))
    return "model_config_list {\n" + "".join(blocks) + "}\n"


def _batching_config(signatures):
    sizes = "\n".join(f"allowed_batch_sizes: {size}" for size in (1, 2, 4, 8, 16, 32))
    config = _BATCHING.format(cores=os.cpu_count(), sizes=sizes)
    choosing = [
        name
        for name, signature in signatures.items()
        if any(len(shape) == 2 for _, shape in signature["inputs"].values())
    ]
    return config + (_OPTIONS_DIFFER.format(names=", ".join(choosing)) if choosing else "")
