"""What the input costs a training step: `fit` on the whole pipeline and on one batch in memory.

    python -m benchmarks.input_share                        # the texts in ALBERT_KERAS_DATA
    python -m benchmarks.input_share --preset small --shape 4x64 --rounds 2 --steps 4

One process, one model. A round is two fits of a few steps each: with the input on, record files to
masked batches as in training, and with it off, a batch of the same pipeline that is kept and
repeated. Which of the two comes first changes from round to round, so that a machine that gets
slower or faster favours neither. A fit's first steps fill the pipeline's buffers and are left out.

One JSON line: median and range of the step with and without, and by how much they differ, over all
steps and round by round.
"""

import argparse
import json
import os
import platform
import tempfile
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from albert_keras import Lamb, Tokenizer, build_albert, build_pretrainer, with_pretraining_loss
from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.record_set import RecordSet
from albert_keras.masking import prediction_slots
from albert_keras.training.timing import StepClock
from benchmarks.data_pipeline import write

FILLING_STEPS = 3  # a batch waits at the end of the pipeline, and one in each thread before it


def main(argv=None):
    data = Path(os.environ.get("ALBERT_KERAS_DATA", ""))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", default=data / "corpus" / "eltec-eng")
    parser.add_argument("--vocabulary", default=data / "vocabulary" / "30k-clean.model")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--shape", default="16x128", help="rows x length")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=8, help="timed, in each of a round's two fits")
    arguments = parser.parse_args(argv)
    for path in (arguments.corpus, arguments.vocabulary):
        if not Path(path).exists():
            parser.error(f"{path} is missing: name one, or set ALBERT_KERAS_DATA")
    rows, length = map(int, arguments.shape.split("x"))
    tokenizer = Tokenizer.load(arguments.vocabulary)
    pretrainer = build_pretrainer(
        build_albert(arguments.preset, vocab_size=tokenizer.vocab_size),
        max_predictions=prediction_slots(length, 0.15),
    )
    model = with_pretraining_loss(pretrainer)
    model.compile(Lamb(1e-4))

    with tempfile.TemporaryDirectory() as folder:
        records = os.path.join(folder, "records")
        write(str(arguments.corpus), str(arguments.vocabulary), records)
        mask = pretrainer.get_layer("masked_lm").mask
        batches = pretraining_batches(
            RecordSet.load(records, tokenizer),
            batch_size=rows,
            sequence_length=length,
            mask=lambda token_ids, seed: mask(token_ids, seed, tokenizer.piece_kinds),
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
        )
        inputs = {"on": batches, "off": batches.take(1).cache().repeat()}
        model.fit(inputs["off"], steps_per_epoch=1, verbose=0)  # compiles
        seconds = {"on": [], "off": []}
        for round_ in range(arguments.rounds):
            for name in ("on", "off") if round_ % 2 == 0 else ("off", "on"):
                seconds[name].append(step_seconds(model, inputs[name], arguments.steps))

    on, off = np.array(seconds["on"]), np.array(seconds["off"])  # [rounds, steps]
    of_rounds = np.median(on, axis=1) / np.median(off, axis=1) - 1
    spread = (np.median, np.min, np.max)
    print(
        json.dumps(
            {
                "benchmark": "input_share",
                "preset": arguments.preset,
                "shape": arguments.shape,
                "rounds": arguments.rounds,
                "steps": arguments.steps,
                "step_seconds_input_on": [round(float(f(on)), 4) for f in spread],
                "step_seconds_input_off": [round(float(f(off)), 4) for f in spread],
                "difference": round(float(np.median(on) / np.median(off) - 1), 4),
                "difference_of_rounds": [round(float(f(of_rounds)), 4) for f in spread],
                "tensorflow": tf.__version__,
                "machine": platform.machine(),
                "cpus": os.cpu_count(),
            }
        )
    )


def step_seconds(model, batches, steps):
    clock = StepClock()
    model.fit(batches, steps_per_epoch=FILLING_STEPS + steps, verbose=0, callbacks=[clock])
    return clock.seconds[FILLING_STEPS:]


if __name__ == "__main__":
    main()
