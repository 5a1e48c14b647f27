"""Writes what transformers computes with an ALBERT, for `albert-keras convert --report`.

    pip install torch transformers
    python examples/reference_from_transformers.py FOLDER reference.npz
    albert-keras convert FOLDER converted --report reference.npz

FOLDER has `config.json` and `model.safetensors`, of any of their ALBERTs. What it has no weights
for is left out: the outputs of a head of pretraining in a classifier's folder, and the pooled
output in one for question answering. The inputs are three rows of random pieces, one of them with
padding, which say more about the numbers than a sentence.
"""

import argparse

import numpy as np
import torch
from transformers import AlbertForPreTraining

# The parts of the model that an output is computed with.
ENCODER = ("albert.embeddings.", "albert.encoder.")
PARTS = {
    "layer_outputs": ENCODER,
    "sequence_output": ENCODER,
    "pooled_output": (*ENCODER, "albert.pooler."),
    "mlm_logits": (*ENCODER, "predictions."),
    "sop_logits": (*ENCODER, "albert.pooler.", "sop_classifier."),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder")
    parser.add_argument("reference", help="the .npz to write")
    parser.add_argument("--length", type=int, default=24, help="pieces in a row")
    arguments = parser.parse_args()

    model, info = AlbertForPreTraining.from_pretrained(arguments.model, output_loading_info=True)
    model.eval()
    rng, shape = np.random.default_rng(0), (3, arguments.length)
    token_ids = rng.integers(5, model.config.vocab_size, shape)
    segment_ids = np.tile(np.arange(shape[1]) >= shape[1] // 2, (3, 1)).astype(int)
    padding_mask = np.ones(shape, int)
    padding_mask[2, shape[1] // 2 :] = 0
    with torch.no_grad():
        encoded = model.albert(
            input_ids=torch.tensor(token_ids),
            token_type_ids=torch.tensor(segment_ids),
            attention_mask=torch.tensor(padding_mask),
            output_hidden_states=True,
        )
        outputs = {
            "layer_outputs": torch.stack(encoded.hidden_states),
            "sequence_output": encoded.last_hidden_state,
            "pooled_output": encoded.pooler_output,
            "mlm_logits": model.predictions(encoded.last_hidden_state),
            # Their column 1 is "swapped"; albert_keras has "swapped" in column 0.
            "sop_logits": model.sop_classifier(encoded.pooler_output).flip(-1),
        }
    # What the checkpoint has no weights for is random.
    for output, parts in PARTS.items():
        if any(name.startswith(parts) for name in info["missing_keys"]):
            del outputs[output]
    if not outputs:
        raise SystemExit(f"{arguments.model} must hold an ALBERT's encoder. Received: none.")
    np.savez(
        arguments.reference,
        token_ids=token_ids.astype("int32"),
        segment_ids=segment_ids.astype("int32"),
        padding_mask=padding_mask.astype("int32"),
        **{name: tensor.numpy() for name, tensor in outputs.items()},
    )
    print(f"{arguments.reference}: {', '.join(outputs)}")


if __name__ == "__main__":
    main()
