"""Makes `huggingface_shapes/`: small ALBERTs of many shapes, and what transformers computes, with
the names that `albert_keras.checkpoints.parity.read_reference` reads.

Made with transformers 5.24.0 and torch 2.13.0 on a CPU, in an environment of their own:

    pip install torch transformers
    python tests/goldens/make_huggingface_shapes.py

Every parameter is drawn by NumPy, none keeps its initial constant. Kernels are large, so that the
form of the GELU and the number of heads show. The embeddings of models without the tied MLM head
are small, so that an epsilon of 1e-6 shows where 1e-12 is meant; those with it have an epsilon of
0.01 in one case, which shows in every layer.
"""

import shutil
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
    AlbertModel,
)

FOLDER = Path(__file__).parent / "huggingface_shapes"
BATCH, LENGTH = 2, 9

# What a case does not name. Sizes that differ from each other, V, I and P odd.
USUAL = {
    "vocab_size": 41,
    "embedding_size": 8,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 13,
    "type_vocab_size": 2,
    "hidden_act": "gelu_new",
    "layer_norm_eps": 1e-12,
}
CASES = {
    "shared": (AlbertForPreTraining, {}),
    "groups": (
        AlbertForPreTraining,
        {"num_hidden_layers": 4, "num_hidden_groups": 2, "hidden_act": "gelu"},
    ),
    "uneven_groups": (AlbertForMaskedLM, {"num_hidden_layers": 5, "num_hidden_groups": 2}),
    "own_layers": (
        AlbertModel,
        {
            "num_hidden_groups": 3,
            "num_attention_heads": 1,
            "hidden_act": "relu",
            "max_position_embeddings": LENGTH,
            "type_vocab_size": 1,
        },
    ),
    "inner_2": (AlbertForPreTraining, {"inner_group_num": 2, "type_vocab_size": 3}),
    "inner_3_groups": (
        AlbertModel,
        {
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 3,
            "num_attention_heads": 12,
            "intermediate_size": 9,
            "hidden_act": "gelu",
        },
    ),
    "square": (AlbertForPreTraining, {"embedding_size": 12, "layer_norm_eps": 0.01}),
    "wide_embedding": (AlbertModel, {"embedding_size": 16, "num_attention_heads": 2}),
    "float16": (AlbertForPreTraining, {"num_hidden_layers": 2, "num_hidden_groups": 2}),
    "classifier": (
        AlbertForSequenceClassification,
        {"num_labels": 3, "hidden_act": "gelu", "num_attention_heads": 6},
    ),
}


def value(name, shape, tied, rng):
    x = rng.standard_normal(shape).astype("float32")
    if name.endswith("_embeddings.weight"):
        return (0.5 if tied else 0.02) * x
    if "norm" in name.lower() and name.endswith("weight"):
        return 1 + 0.3 * x
    return 0.5 * x


def make(name, kind, changes, seed):
    rng = np.random.default_rng(seed)
    model = kind(AlbertConfig(**{**USUAL, **changes})).eval()
    parameters = dict(model.named_parameters())
    tied = "predictions.bias" in parameters
    with torch.no_grad():
        for parameter in sorted(parameters):
            array = value(parameter, parameters[parameter].shape, tied, rng)
            parameters[parameter].copy_(torch.from_numpy(array))
    folder = FOLDER / name
    if name == "float16":
        model.half().save_pretrained(folder)
        model.float()  # computes with the rounded weights
    else:
        model.save_pretrained(folder)

    config = model.config
    token_ids = rng.integers(0, config.vocab_size, (BATCH, LENGTH)).astype("int32")
    segment_ids = np.sort(rng.integers(0, config.type_vocab_size, (BATCH, LENGTH)), axis=1)
    padding_mask = (np.arange(LENGTH) < np.array([[LENGTH], [5]])).astype("int32")
    with torch.no_grad():
        outputs = model(
            input_ids=torch.from_numpy(token_ids),
            token_type_ids=torch.from_numpy(segment_ids),
            attention_mask=torch.from_numpy(padding_mask),
            output_hidden_states=True,
        )
        # One for each single layer, those of a group included, after the projected embeddings.
        layer_outputs = torch.stack(outputs.hidden_states)
        pooler = getattr(model, "albert", model).pooler
        expected = {"layer_outputs": layer_outputs, "sequence_output": layer_outputs[-1]}
        if pooler is not None:
            expected["pooled_output"] = torch.tanh(pooler(layer_outputs[-1][:, 0]))
    if kind is AlbertForPreTraining:
        expected["mlm_logits"] = outputs.prediction_logits
        # Their column 1 is "swapped"; a reference of this library has that one first.
        expected["sop_logits"] = outputs.sop_logits.flip(1)
    elif kind is AlbertForMaskedLM:
        expected["mlm_logits"] = outputs.logits
    elif kind is AlbertForSequenceClassification:
        np.save(folder / "logits.npy", outputs.logits.numpy())
    np.savez_compressed(
        folder / "expected.npz",
        token_ids=token_ids,
        segment_ids=segment_ids.astype("int32"),
        padding_mask=padding_mask,
        **{name: array.numpy() for name, array in expected.items()},
    )


shutil.rmtree(FOLDER, ignore_errors=True)
for seed, (name, (kind, changes)) in enumerate(CASES.items()):
    make(name, kind, changes, seed)
