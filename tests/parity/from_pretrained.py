"""What `save_albert` writes, transformers loads, and computes what we do.

    python -m tests.parity.from_pretrained

Five kinds of model, each in shapes that Hugging Face's config can say and that it cannot.
TensorFlow and torch do not have to share a process: one writes, another reads.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# Of the largest value of an output, or of 1 where that is more.
TOLERANCE = 1e-5
CLASSES = {
    "encoder": "AlbertModel",
    "pretrainer": "AlbertForPreTraining",
    "classifier": "AlbertForSequenceClassification",
    "span_predictor": "AlbertForQuestionAnswering",
    "multiple_choice": "AlbertForMultipleChoice",
}
SHAPES = {
    "shared": {},
    "attention_only": {"sharing": "attention"},
    "groups": {"sharing": 2, "num_hidden_layers": 4, "hidden_act": "gelu_erf"},
    "first_own": {"num_hidden_layers": 4, "sharing": ((0, 1, 2, 2), (0, 1, 2, 2))},
    "square": {"embedding_size": 24, "sharing": "none", "intermediate_size": 17},
    "projected": {"embedding_size": 24, "always_project": True, "layer_norm_eps": 1e-5},
}
# Our names of their outputs.
THEIRS = {
    "last_hidden_state": "sequence_output",
    "pooler_output": "pooled_output",
    "prediction_logits": "mlm_logits",
}


def write(folder: Path) -> None:
    """Saves a random model of each kind and shape, and beside it what it computes."""
    from albert_keras import build_albert, build_pretrainer, save_albert
    from albert_keras.task_models import (
        build_classifier,
        build_multiple_choice,
        build_span_predictor,
    )

    kinds = {
        "encoder": lambda encoder: encoder,
        "pretrainer": build_pretrainer,
        "classifier": lambda encoder: build_classifier(encoder, 3),
        "span_predictor": build_span_predictor,
        "multiple_choice": build_multiple_choice,
    }
    rng = np.random.default_rng(0)
    for kind, build in kinds.items():
        for shape, changes in SHAPES.items():
            model = build(build_albert("tiny", **changes))
            for weight in model.weights:
                weight.assign(rng.normal(0, 0.3, tuple(weight.shape)).astype("float32"))
            rows = (3, 4) if kind == "multiple_choice" else (3,)
            inputs = {
                "token_ids": rng.integers(0, 100, (*rows, 11)),
                "segment_ids": rng.integers(0, 2, (*rows, 11)),
                "padding_mask": np.arange(11) < rng.integers(2, 12, (*rows, 1)),
            }
            inputs = {name: array.astype("int32") for name, array in inputs.items()}
            given = dict(inputs)
            if kind == "pretrainer":
                given["masked_positions"] = np.tile(np.arange(11, dtype="int32"), (3, 1))
            outputs = {name: np.array(x) for name, x in model(given, training=False).items()}
            path = folder / f"{kind} {shape}"
            save_albert(model, path, labels=["a", "b", "c"] if kind == "classifier" else None)
            np.savez(path / "ours.npz", **inputs, **outputs)


def read(folder: Path) -> None:
    """Loads each with transformers, which must find every tensor and use it, and compares."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    wrong = []
    for path in sorted(folder.iterdir()):
        kind = path.name.split()[0]
        model, report = getattr(transformers, CLASSES[kind]).from_pretrained(
            path, output_loading_info=True
        )
        with np.load(path / "ours.npz") as file:
            ours = dict(file)
        with torch.no_grad():
            outputs = model.eval()(
                input_ids=torch.tensor(ours["token_ids"]),
                token_type_ids=torch.tensor(ours["segment_ids"]),
                attention_mask=torch.tensor(ours["padding_mask"]),
            )
        theirs = {THEIRS.get(name, name): x.numpy() for name, x in outputs.items()}
        if "sop_logits" in theirs:
            theirs["sop_logits"] = theirs["sop_logits"][:, ::-1]  # their column 1 is "swapped"
        tokens, errors = ours["padding_mask"] == 1, {}
        for name, array in theirs.items():
            expected = ours[name]
            if array.shape[: tokens.ndim] == tokens.shape:
                array, expected = array[tokens], expected[tokens]
            errors[name] = np.abs(array - expected).max() / max(1, np.abs(expected).max())
        print(path.name, " ".join(f"{name} {error:.1e}" for name, error in errors.items()))
        if any(report.values()) or not max(errors.values()) <= TOLERANCE:
            wrong.append(f"{path.name} {report}")
    if wrong:
        raise SystemExit("Not equal:\n" + "\n".join(wrong))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            for step in ("write", "read"):
                subprocess.run([sys.executable, "-m", __spec__.name, step, temporary], check=True)
