"""strategy_named: where a run trains. One device, several, several machines, or a TPU."""

import importlib.metadata
import json
import os

import tensorflow as tf

STRATEGIES = ("auto", "cpu", "mirrored", "multiworker", "tpu")

# Longest that a step of several workers waits for one that is alive and does not come. One that is
# gone is noticed by its heartbeat, after 10 seconds.
_WAIT_SECONDS = 600

# What a machine with a TPU, or with one in reach, has in its environment.
_TPU_VARIABLES = ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_WORKER_ID")


def strategy_named(name: str) -> tf.distribute.Strategy:
    """The distribution strategy of this name, set up and ready for `with strategy.scope()`.

    Call it before TensorFlow does anything else in the process: "tpu" and "multiworker" cannot be
    set up later.

    Args:
        name: one of `STRATEGIES`.
            "auto": "tpu" if the environment or TensorFlow names one; else "multiworker" if
                TF_CONFIG names several machines; else "mirrored" with several GPUs; else the one
                GPU, or the CPU.
            "cpu": the CPU, even beside a GPU.
            "mirrored": all GPUs of this machine, or several logical CPUs if they are configured.
                Each has a copy of the weights and a part of every batch.
            "multiworker": as "mirrored", over several machines. Each runs the same program with a
                TF_CONFIG of its own, and they wait for each other; see
                `examples/pretrain_multiworker.py`.
            "tpu": the TPU that TPU_NAME names, or this machine's; see `examples/pretrain_tpu.py`.

    Raises:
        ValueError: an unknown name, or there is no such hardware, or it is not set up for it.

    Example:

    >>> strategy_named("cpu").num_replicas_in_sync
    1
    """
    if name not in STRATEGIES:
        raise ValueError(f"`strategy` must be one of {', '.join(STRATEGIES)}. Received: {name!r}.")
    if name == "auto":
        name = _fitting()
    make = {"one": tf.distribute.get_strategy, "cpu": _cpu, "mirrored": _mirrored}
    return {**make, "multiworker": _multiworker, "tpu": _tpu}[name]()


def refuse_uneven_batch(
    batch_size: int, strategy: tf.distribute.Strategy, micro_batches: int = 1
) -> int:
    """The rows of a batch that each replica of `strategy` trains on.

    Raises:
        ValueError: they are not equally many, or not a multiple of `micro_batches`.

    Example:

    >>> refuse_uneven_batch(32, tf.distribute.get_strategy(), micro_batches=4)
    """
    replicas = strategy.num_replicas_in_sync
    parts = replicas * micro_batches
    if batch_size < 1 or batch_size % parts:
        nearest = max(parts, batch_size // parts * parts)
        raise ValueError(
            f"`batch_size` must be a multiple of the {replicas} replicas times `micro_batches`. "
            f"Received: {batch_size}, {replicas} and {micro_batches}. Use {nearest} or "
            f"{nearest + parts}, or fewer `micro_batches`."
        )


def _fitting():
    if any(map(os.environ.get, _TPU_VARIABLES)):
        return "tpu"
    jobs = list(_tf_config().get("cluster", {}).values())
    if jobs and not (len(jobs) == 1 and isinstance(jobs[0], list) and len(jobs[0]) == 1):
        return "multiworker"  # not for one machine, whose cluster some services set as well
    if tf.config.list_physical_devices("TPU"):
        return "tpu"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one"


def _cpu():
    # Hiding the GPUs would be refused once TensorFlow has looked for them.
    return tf.distribute.OneDeviceStrategy("CPU:0")


def _mirrored():
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) < 2:
        raise ValueError(
            'The strategy "mirrored" needs several devices. Received: '
            f'{devices[0].name.removeprefix("/device:")} alone. Use "auto", or make the other '
            "GPUs visible (CUDA_VISIBLE_DEVICES)."
        )
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _multiworker():
    _refuse_lone_worker(_tf_config())
    options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=_WAIT_SECONDS)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise ValueError(
            'The strategy "multiworker" must be made before TensorFlow does anything else. '
            "Received: a process in which it has looked for devices or computed. Call "
            "strategy_named first."
        ) from error


def _tf_config():
    text = os.environ.get("TF_CONFIG", "")
    try:
        config = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"TF_CONFIG must be JSON ({error}). Received: {text}") from error
    if not isinstance(config, dict) or not isinstance(config.get("cluster", {}), dict):
        raise ValueError(
            "TF_CONFIG must be a JSON object, and its cluster one of addresses by job. Received: "
            + text
        )
    return config


def _refuse_lone_worker(config):
    example = (
        '{"cluster": {"worker": ["host1:12345", "host2:12345"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    if not config:
        raise ValueError(
            'The strategy "multiworker" reads its machines from TF_CONFIG. Received: none. Set it '
            f"on each machine to the same cluster and its own index, such as {example}"
        )
    cluster, task = config.get("cluster"), config.get("task")
    try:
        known = set(cluster) <= {"chief", "worker"}
        sizes = {job: len(addresses) for job, addresses in cluster.items()}
        lists = all(isinstance(addresses, list) for addresses in cluster.values())
        placed = 0 <= task["index"] < sizes.get(task["type"], 0)
    except (TypeError, KeyError, AttributeError):
        known = lists = placed = False
    if not (known and lists and placed):
        raise ValueError(
            "TF_CONFIG must have a cluster of worker (and chief) addresses, and a task with the "
            f"type and index of this machine. Received: {json.dumps(config)}. One such is {example}"
        )
    if sum(sizes.values()) < 2:
        raise ValueError(
            'The strategy "multiworker" is for several machines. Received: a TF_CONFIG with one, '
            f'{json.dumps(cluster)}. Unset it and use "auto", or list the others.'
        )


def _tpu():
    _refuse_two_tensorflows()
    endpoints = os.environ.get("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")
    name = endpoints or os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(name)
    except (tf.errors.OpError, OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"No TPU was found under the name {name!r} ({type(error).__name__}). On a TPU VM: "
            "install tensorflow-tpu and libtpu as examples/pretrain_tpu.py says, see that no other "
            "process uses the TPU, and leave TPU_NAME unset or set it to local; for a pod or a "
            "remote TPU, to its name."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _refuse_two_tensorflows():
    """Both packages have the same folder; whichever was installed last overwrote the other."""
    try:
        versions = [importlib.metadata.version(name) for name in ("tensorflow", "tensorflow-tpu")]
    except importlib.metadata.PackageNotFoundError:
        return
    raise ValueError(
        "A TPU needs tensorflow-tpu without tensorflow, which overwrites it. Received: tensorflow "
        f"{versions[0]} and tensorflow-tpu {versions[1]}. Make a new environment as "
        "examples/pretrain_tpu.py says."
    )
