"""Makes `huggingface_tiny/`: a small ALBERT that transformers wrote, and what it computes.

Made with transformers 5.24.0 and torch 2.13.0 on a CPU, in an environment of their own:

    pip install torch transformers
    python tests/goldens/make_huggingface_tiny.py

Two groups over four layers, every size different from every other, weights large enough that a
swap, a transpose or a wrong activation shows.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import AlbertConfig, AlbertForPreTraining

folder = Path(__file__).parent / "huggingface_tiny"
torch.manual_seed(0)
model = AlbertForPreTraining(
    AlbertConfig(
        vocab_size=60,
        embedding_size=8,
        hidden_size=12,
        num_hidden_layers=4,
        num_hidden_groups=2,
        inner_group_num=1,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=16,
        hidden_act="gelu_new",
    )
).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn_like(parameter)
model.save_pretrained(folder)

rng = np.random.default_rng(0)
token_ids = rng.integers(5, 60, (3, 11))
segment_ids = np.tile(np.arange(11) > 5, (3, 1)).astype(int)
padding_mask = (np.arange(11) < np.array([[11], [7], [2]])).astype(int)
with torch.no_grad():
    inputs = {
        "input_ids": torch.tensor(token_ids),
        "token_type_ids": torch.tensor(segment_ids),
        "attention_mask": torch.tensor(padding_mask),
    }
    encoded = model.albert(**inputs)
    heads = model(**inputs)
np.savez_compressed(
    folder / "expected.npz",
    token_ids=token_ids.astype("int32"),
    segment_ids=segment_ids.astype("int32"),
    padding_mask=padding_mask.astype("int32"),
    sequence_output=encoded.last_hidden_state.numpy(),
    pooled_output=encoded.pooler_output.numpy(),
    mlm_logits=heads.prediction_logits.numpy(),
    sop_logits=heads.sop_logits.numpy(),  # their column 1 is "swapped"
)
