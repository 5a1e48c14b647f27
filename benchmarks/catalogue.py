"""What `python -m benchmarks` measures: the commands of each benchmark, and how long they take."""

import dataclasses
import itertools

# Modules that run in the environment of the peers.
OF_PEERS = ("training_step_keras_hub", "training_step_hugging_face")


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One benchmark, whose lines stand together in a file of results.

    Args:
        commands: modules of `benchmarks` with their arguments, run one after the other.
        minutes: on two cores, about.
        needs_data: whether it reads the texts of ALBERT_KERAS_DATA.
        has_peers: whether other implementations take part.
    """

    commands: tuple[str, ...]
    minutes: int
    needs_data: bool = False
    has_peers: bool = False


def _training_steps() -> tuple[str, ...]:
    """Ours and the peers, one process after the other, in one order and then in the other: a
    machine that gets slower or faster favours none."""
    modules = ("training_step", *OF_PEERS)
    commands = []
    for policy, shape in itertools.product(("float32", "mixed_bfloat16"), ("16x128", "4x512")):
        for order in (modules, modules[::-1]):
            commands += [f"{name} --shape {shape} --policy {policy} --steps 5" for name in order]
    return tuple(commands)


BENCHMARKS = {
    "training_step": Benchmark(_training_steps(), minutes=14, has_peers=True),
    "scaling": Benchmark(("scaling",), minutes=7),
    "depth": Benchmark(("depth",), minutes=5),
    "input_share": Benchmark(("input_share --rounds 4 --steps 6",), minutes=4, needs_data=True),
    "data_pipeline": Benchmark(("data_pipeline",), minutes=6, needs_data=True),
    "records_at_size": Benchmark(("records_at_size --workers 1 2",), minutes=7, needs_data=True),
    "finetuning_batches": Benchmark(("finetuning_batches",), minutes=2, needs_data=True),
    "serving": Benchmark(("serving --rounds 4",), minutes=12, needs_data=True, has_peers=True),
    "edge": Benchmark(("edge",), minutes=3, needs_data=True),
}
