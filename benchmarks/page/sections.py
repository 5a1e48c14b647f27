"""What the page says of each benchmark: title, what is measured and how, and its tables."""

import dataclasses
from collections.abc import Callable, Sequence

from benchmarks.page import answers, charts, data, training


@dataclasses.dataclass(frozen=True)
class Section:
    """A benchmark on the page.

    Args:
        title: of the section.
        text: what is measured.
        tables: the benchmark's lines as Markdown.
        chart: file name, description and function from the lines to SVG, or None.
    """

    title: str
    text: str
    tables: Callable[[Sequence[dict]], str]
    chart: tuple[str, str, Callable[[Sequence[dict]], bytes]] | None = None


SECTIONS = {
    "training_step": Section(
        "A training step beside its floor and the peers",
        """\
ALBERT-base. The floor is the time that the step's matrix products alone would take at the speed
of a 2,048-square product in the same process and type. A step of ours is all that `fit` does,
LAMB and both losses included; keras-hub has no sentence-order head and does less, Hugging Face
computes the logits of all positions; both with AdamW. Each library is a process of its own; they
run in turn, in one order and then in the other. Memory is the peak of the whole process.""",
        training.training_step,
    ),
    "scaling": Section(
        "Length, batch and depth",
        """\
ALBERT-base with all layers shared, float32, with and without `--recompute`. Seconds are by the
clock: median, least and greatest of the rounds. MB are the most that a step's tensors take beside
the weights and moments that are there before.""",
        training.scaling,
        ("scaling.svg", "Seconds and memory of a step", charts.scaling_chart),
    ),
    "depth": Section(
        "Depth, with building and compiling",
        """\
ALBERT-base, all layers shared, float32, a row of 512 pieces. Seconds are of the processor, all
cores together, median, least and greatest of three steps. Tracing and compiling is the first
step, on eight pieces.""",
        training.depth,
    ),
    "input_share": Section(
        "What the input costs a training step",
        """\
`fit` on the whole pipeline, record files to masked batches, and on one batch in memory, in turn
in one process.""",
        training.input_share,
    ),
    "data_pipeline": Section(
        "The data pipeline on one core",
        """\
English novels, one process pinned to one core; median, least and greatest of five repeats. Tokens
are real ones, padding is not counted. Rates by the clock suffer from whatever else the machine
does.""",
        data.data_pipeline,
    ),
    "records_at_size": Section(
        "Records at growing sizes",
        """\
Text to records, `--sentences split`. Memory before is with TensorFlow and the vocabulary in it.
One run a line: the sizes say how it varies.""",
        data.records_at_size,
    ),
    "finetuning_batches": Section(
        "Batches of fine-tuning",
        """\
`fit` of a classifier of pairs on the same examples, the kinds of batches in turn in one process;
median, least and greatest of the rounds.""",
        training.finetuning_batches,
    ),
    "serving": Section(
        "Answers from raw strings, beside the peers",
        """\
ALBERT-base in float32, but for what is named int8, on two threads: one text of ten words, and 32
of 10 to 200 words at once. Every contender is a process that waits; they answer in turn. On a
processor that is not Intel's, torch's products take a slow path; "unslowed" has a library
preloaded that takes them off it. Hugging Face and keras-hub "sorted" run in slices sorted by
length, as ours does.""",
        answers.serving,
    ),
    "edge": Section(
        "Formats for devices",
        """\
ALBERT-base, integers to scores on two threads; rows x length of pieces without padding; the
formats in turn in one process. `keras` is the model itself in a graph. Weights are random, which
says nothing of labels.""",
        answers.edge,
    ),
}
