"""Makes keras_hub_tiny/: a small random preset of keras-hub's ALBERT and what keras-hub computes.

    python tests/goldens/make_keras_hub_tiny.py

Run where keras-hub is installed; the files here are of 0.32.0 with Keras 3.15.
"""

import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras_hub
import numpy as np

FOLDER = Path(__file__).parent / "keras_hub_tiny"

backbone = keras_hub.models.AlbertBackbone(
    vocabulary_size=50,
    num_layers=4,
    num_heads=2,
    embedding_dim=8,
    hidden_dim=24,
    intermediate_dim=40,
    num_groups=2,
    num_inner_repetitions=2,
    max_sequence_length=16,
    dropout=0.0,
)
rng = np.random.default_rng(3)
# No weight keeps its initial constant, so that a swap shows.
backbone.set_weights([rng.normal(0, 0.3, w.shape).astype("float32") for w in backbone.weights])
inputs = {"token_ids": rng.integers(0, 50, (3, 7)), "segment_ids": rng.integers(0, 2, (3, 7))}
inputs["padding_mask"] = np.ones((3, 7), int)
inputs["padding_mask"][1, 4:] = 0
outputs = {name: np.array(value) for name, value in backbone(inputs).items()}
backbone.save_to_preset(FOLDER)
(FOLDER / "metadata.json").unlink()
np.savez(
    FOLDER / "expected.npz",
    **{name: value.astype("int32") for name, value in inputs.items()},
    **outputs,
)
