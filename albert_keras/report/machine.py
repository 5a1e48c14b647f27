"""What a page says of the machine and the libraries that it was written with."""

import os
import platform
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import tensorflow as tf


def describe_machine() -> dict[str, str]:
    """Names and values: the libraries, the processor, and what TensorFlow finds beside it."""
    found = Counter(
        tf.config.experimental.get_device_details(device).get("device_name", device.device_type)
        for device in tf.config.list_physical_devices()
        if device.device_type not in ("CPU", "XLA_CPU")
    )
    accelerators = ", ".join(f"{count} x {name}" for name, count in sorted(found.items()))
    return {
        "processor": f"{processor_name()}, {os.cpu_count()} cores",
        "accelerators": accelerators or "none",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
        "TensorFlow": tf.__version__,  # its package has another name on a TPU
        "NumPy": version("numpy"),
    }


def processor_name() -> str:
    """Of the first core."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
