"""A TPUStrategy whose devices are logical CPUs: it traces as on a TPU and can never run a step.

It finds what goes wrong before a TPU is asked: in the policies of variables, in calls that only a
replica or only the strategy may make, in the shapes of a replica. It uses private classes of
TensorFlow, so it belongs to the tests.
"""

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import tpu_strategy
from tensorflow.python.tpu import device_assignment, topology
from tensorflow.python.tpu.tpu_system_metadata import TPUSystemMetadata

HOST = "/job:localhost/replica:0/task:0"


class _OnCPUs(device_assignment.DeviceAssignment):
    """The cores of the assignment are logical CPUs."""

    def tpu_device(self, replica=0, logical_core=0, job=None):
        return f"{HOST}/device:CPU:{replica}"


class _Resolver:
    """What the strategy asks of a cluster: the names of its devices."""

    def __init__(self, cores):
        self._cores = cores

    tpu_hardware_feature = None

    def get_tpu_system_metadata(self):
        return TPUSystemMetadata(
            num_cores=self._cores,
            num_hosts=1,
            num_of_cores_per_host=self._cores,
            topology=None,
            devices=[
                tf.config.LogicalDevice(f"{HOST}/device:TPU:{core}", "TPU")
                for core in range(self._cores)
            ],
        )

    def cluster_spec(self):
        return tf.train.ClusterSpec({})


def fake_tpu_strategy(cores: int) -> tf.distribute.TPUStrategy:
    """A TPUStrategy over `cores` logical CPUs, which must have been configured."""
    coordinates = [[[core, 0, 0, 0] for core in range(cores)]]
    slice_ = topology.Topology(
        mesh_shape=[cores, 1, 1, 1], device_coordinates=np.array(coordinates, np.int32)
    )
    assignment = _OnCPUs(slice_, np.array([[place] for place in coordinates[0]], np.int32))
    return tpu_strategy.TPUStrategyV2(_Resolver(cores), experimental_device_assignment=assignment)
