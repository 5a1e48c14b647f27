"""Traces train steps under a fake TPUStrategy, and prints what of them a TPU could not compile.

    python -m tests.tpu.trace OBJECTIVE,MICRO_BATCHES...

It needs a process of its own, for its two logical devices. Prints a JSON object by case: `ops`, how
many there are in a replica; `kernels`, functions that must be compiled by themselves; `shapes`, of
a replica's token ids; `unsupported`, ops that XLA has no kernel for with such types.
"""

import json
import sys

import tensorflow as tf
from tensorflow.python.framework import kernels

from tests.tpu.fake_tpu import fake_tpu_strategy
from tests.tpu.train_step import batch, training_model

CORES = 2
# TensorFlow without a TPU has no kernels of these, and the strategy itself puts them there.
OF_TPUS = {"TPUReplicateMetadata", "CrossReplicaSum", "AllToAll"}


def traced(step, strategy, data):
    """The graph of a loop of steps over a distributed dataset, as `steps_per_execution` has it."""
    iterator = iter(strategy.experimental_distribute_dataset(data))

    @tf.function
    def steps(iterator):
        for _ in tf.range(4):
            strategy.run(step, args=(next(iterator),))

    return steps.get_concrete_function(iterator).graph


def replicated_nodes(graph):
    """The nodes that go to the TPU: those of replicas, and of the functions that they call."""
    definition = graph.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}
    every = [*definition.node, *(node for f in functions.values() for node in f.node_def)]
    found = [node for node in every if "_tpu_replicate" in node.attr]
    called = set()
    for node in found:  # grows
        for name in called_by(node) - called:
            called.add(name)
            found += functions[name].node_def
    return found, [name for name in called if functions[name].attr["_XlaMustCompile"].b]


def called_by(node):
    values = node.attr.values()
    return {value.func.name for value in values if value.HasField("func")}


def unsupported(nodes):
    """What of the nodes XLA has no kernel for, as "op(types)"."""
    tf.function(lambda x: x + 1, jit_compile=True)(1)  # or no kernels are registered yet
    known = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type == "XLA_CPU_JIT":
            known.setdefault(kernel.op, []).append(kernel.constraint)

    def fits(node, constraints):
        return all(
            node.attr[constraint.name].type in constraint.allowed_values.list.type
            for constraint in constraints
            if node.attr[constraint.name].HasField("type")
        )

    def described(node):
        types = {value.type for value in node.attr.values() if value.HasField("type")}
        return f"{node.op}({', '.join(sorted(tf.as_dtype(type_).name for type_ in types))})"

    return sorted(
        {
            described(node)
            for node in nodes
            if node.op not in OF_TPUS and not any(fits(node, c) for c in known.get(node.op, ()))
        }
    )


def audited(step, strategy):
    data = tf.data.Dataset.from_tensors(batch()).repeat()
    nodes, compiled_alone = replicated_nodes(traced(step, strategy, data))
    return {"ops": len(nodes), "kernels": compiled_alone, "unsupported": unsupported(nodes)}


def with_host_work(data):
    """A step that no TPU can do: two ops that XLA does not have, and strings in one that it has."""
    tf.py_function(lambda x: x, [data["sop_weights"]], tf.float32)
    return tf.reverse(tf.strings.as_string(data["sop_labels"]), [0])


def main(*cases):
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * CORES
    tf.config.set_logical_device_configuration(cpu, devices)
    strategy = fake_tpu_strategy(CORES)
    found = {"host work": audited(with_host_work, strategy)}
    for case in cases:
        objective, micro_batches = case.split(",")
        shapes = []
        with strategy.scope():
            model = training_model(objective, int(micro_batches))

        def step(data, model=model, shapes=shapes):
            shapes.append(data["token_ids"].shape.as_list())
            return model.train_step(data)

        found[case] = {**audited(step, strategy), "shapes": shapes}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
