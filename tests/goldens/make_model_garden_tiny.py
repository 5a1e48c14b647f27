"""Makes model_garden_tiny/: small random checkpoints of TF Model Garden's ALBERT, and its numbers.

    pip install tf-models-official==2.20.0
    python tests/goldens/make_model_garden_tiny.py

The first is the extra `model-garden`, 126 packages; these are enough for what is imported here:

    pip install "tensorflow==2.20.*" "tf-keras==2.20.*" scipy gin-config
    pip install --no-deps tf-models-official==2.20.0

The files here are of tf-models-official 2.20.0 with TensorFlow 2.20.0 and tf-keras 2.20.1. They are
saved as its `tf2_albert_encoder_checkpoint_converter` saves an encoder and a pretrainer, and as its
`export_tfhub_lib` saves a SavedModel, of which only the variables are kept.
"""

import json
import os
import shutil
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import tf_keras
from official.modeling import tf_utils
from official.nlp.modeling.models import BertPretrainerV2
from official.nlp.modeling.networks import AlbertEncoder

FOLDER = Path(__file__).parent / "model_garden_tiny"

# Laid out as the albert_config.json of a release.
CONFIG = {
    "attention_probs_dropout_prob": 0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "embedding_size": 8,
    "hidden_size": 12,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "num_attention_heads": 3,
    "num_hidden_layers": 4,
    "num_hidden_groups": 1,
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "inner_group_num": 1,
    "down_scale_factor": 1,
    "type_vocab_size": 2,
    "vocab_size": 30,
}

encoder = AlbertEncoder(
    vocab_size=CONFIG["vocab_size"],
    embedding_width=CONFIG["embedding_size"],
    hidden_size=CONFIG["hidden_size"],
    num_layers=CONFIG["num_hidden_layers"],
    num_attention_heads=CONFIG["num_attention_heads"],
    max_sequence_length=CONFIG["max_position_embeddings"],
    type_vocab_size=CONFIG["type_vocab_size"],
    intermediate_size=CONFIG["intermediate_size"],
    activation=tf_utils.get_activation(CONFIG["hidden_act"]),
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    dict_outputs=True,
)
rng = np.random.default_rng(5)
inputs = {
    "input_word_ids": rng.integers(0, CONFIG["vocab_size"], (3, 7)).astype("int32"),
    "input_type_ids": rng.integers(0, 2, (3, 7)).astype("int32"),
    "input_mask": np.ones((3, 7), "int32"),
}
inputs["input_mask"][1, 4:] = 0
positions = np.array([[1, 3], [0, 2], [5, 6]], "int32")

pretrainer = BertPretrainerV2(encoder, mlm_activation=tf_utils.get_activation(CONFIG["hidden_act"]))
pretrainer({**inputs, "masked_lm_positions": positions})
# No weight keeps its initial constant, so that a swap shows. Large kernels show which GELU it is,
# small embeddings the epsilon of the LayerNorm.
for weight in pretrainer.weights:
    weight.assign(rng.normal(0, 0.05 if "embeddings:" in weight.name else 0.8, weight.shape))
embed = tf_keras.Model(encoder.inputs, encoder.get_layer("embedding_projection").output)
outputs = pretrainer({**inputs, "masked_lm_positions": positions})


def save(name, **items):
    (FOLDER / name).mkdir(parents=True)
    (FOLDER / name / "albert_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    if items:
        tf.train.Checkpoint(**items).save(str(FOLDER / name / "bert_model.ckpt"))
        (FOLDER / name / "checkpoint").unlink()


shutil.rmtree(FOLDER, ignore_errors=True)
save("encoder", encoder=encoder)
save("pretrainer", **{**pretrainer.checkpoint_items, "model": pretrainer})
save("saved_model")
names = {tensor.name: tensor for tensor in encoder.inputs}
tf_keras.Model(names, encoder(names)).save(FOLDER / "exported", save_format="tf")
(FOLDER / "exported" / "variables").rename(FOLDER / "saved_model" / "variables")
shutil.rmtree(FOLDER / "exported")
np.savez(
    FOLDER / "expected.npz",
    **inputs,
    masked_lm_positions=positions,
    embedding_output=embed(inputs),
    layer_outputs=np.stack(outputs["encoder_outputs"]),
    sequence_output=outputs["sequence_output"],
    pooled_output=outputs["pooled_output"],
    mlm_logits=outputs["mlm_logits"],
    # By their own names, read from the layers.
    **{f"weights/{weight.name.removesuffix(':0')}": weight for weight in encoder.weights},
)
