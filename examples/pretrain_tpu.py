"""Pretrains an ALBERT on a Cloud TPU: records -> masked batches -> a checkpoint folder.

On a TPU VM with Python 3.11 to 3.13, in a new environment. The versions are exact: TensorFlow for
TPUs ends at 2.20, and with a newer libtpu importing it aborts. `--no-deps`, because tf_keras and
tensorflow-text ask for the package `tensorflow`, which would overwrite `tensorflow-tpu`.

    pip install tensorflow-tpu==2.20.0 libtpu==0.0.14
    pip install --no-deps tf_keras==2.20.1 tensorflow-text==2.20.1
    pip install --no-deps .            # this library, from its checkout
    pip install sentencepiece safetensors typer rich

    python examples/pretrain_tpu.py --records records --vocab vocabulary --out run \\
        --preset base --length 512 --batch 4096 --steps 125000

`records` and `vocabulary` are made by `albert-keras records` and `albert-keras vocab`, on any
machine; records may be in a bucket, gs://bucket/records. The run's folder is on the VM's disk: copy
it to the bucket when it has ended. --resume goes on with a run that was stopped. To try the script
without a TPU, take --strategy cpu and the package `tensorflow`: that for TPUs cannot compile for a
CPU, which training there needs.

Four settings that a TPU wants: batches of one shape, which they always are; bfloat16, with weights
and moments in float32; many steps in one call of the TPU (--steps-per-execution), since the host
waits for each call; and a batch that is a multiple of the cores times --micro-batches, which cut a
core's rows into parts where its memory is too small for the whole.

What was verified, all of it without a TPU (`tests/tpu`): the train step lowers to XLA's HLO with
shapes that are all known, and traces under a TPUStrategy whose cores are CPUs; XLA has a kernel for
each of its ops; and loss and gradients lower with the TPU's own kernels (`make tpu-lowering`). What
was not: that it fits into a TPU's memory, how fast it is, the numbers that come out, and a slice of
more than one VM, for which saving would need folders that all hosts see.

Time and score: not measured. The paper's run of base on 512 tokens is 125,000 steps of 4,096.

Reference: ALBERT, section 4.1 and appendix A.1, https://arxiv.org/abs/1909.11942
"""

import argparse
import os

# Keras 2, which draws another dropout mask on each core. Before TensorFlow is imported.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import tensorflow as tf  # noqa: E402

from albert_keras import Tokenizer  # noqa: E402
from albert_keras.config import PRESETS, config_from  # noqa: E402
from albert_keras.data.record_set import RecordSet  # noqa: E402
from albert_keras.recipes import PretrainingRecipe, scaled_rate  # noqa: E402
from albert_keras.tasks.pretraining import compiled, new_pretrainer  # noqa: E402
from albert_keras.tasks.pretraining_run import Corpora, pretrain  # noqa: E402
from albert_keras.training.strategy import STRATEGIES, strategy_named  # noqa: E402


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", required=True, help="folder of `albert-keras records`")
    parser.add_argument("--vocab", required=True, help="the vocabulary of the records")
    parser.add_argument("--out", required=True, help="folder of the run, on this machine")
    parser.add_argument("--strategy", choices=STRATEGIES, default="tpu")
    parser.add_argument("--preset", choices=PRESETS, default="base")
    parser.add_argument("--length", type=int, default=512, help="pieces in a row")
    parser.add_argument("--batch", type=int, default=4096, help="rows of a step, on all cores")
    parser.add_argument("--micro-batches", type=int, default=1, help="parts of a core's rows")
    parser.add_argument("--steps", type=int, default=125_000)
    parser.add_argument("--steps-per-execution", type=int, default=100)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args(argv)

    # First of all: a TPU is set up before TensorFlow does anything else.
    strategy = strategy_named(arguments.strategy)
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")

    tokenizer = Tokenizer.load(arguments.vocab)
    records = RecordSet.load(arguments.records, tokenizer)
    config = config_from(arguments.preset, {"vocab_size": tokenizer.vocab_size})
    recipe = PretrainingRecipe(
        sequence_length=arguments.length,
        batch_size=arguments.batch,
        micro_batches=arguments.micro_batches,
        total_steps=arguments.steps,
        warmup_steps=arguments.steps // 40,  # the paper's 3,125 of 125,000
        learning_rate=scaled_rate(arguments.batch),
    )
    with strategy.scope():  # whose replicas then hold the weights and the optimizer's moments
        pretrainer = new_pretrainer(config, recipe, tokenizer)
        model = compiled(pretrainer, recipe, steps_per_execution=arguments.steps_per_execution)
    corpora = Corpora(train=[records], weights=None, dev={}, tokenizer=tokenizer)
    reached = pretrain(model, pretrainer, corpora, recipe, arguments.out, resume=arguments.resume)
    print(f"{reached} steps on {strategy.num_replicas_in_sync} replicas: {arguments.out}")


if __name__ == "__main__":
    main()
