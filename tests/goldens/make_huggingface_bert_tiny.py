"""Makes `huggingface_bert_tiny/`: a small BERT that transformers wrote, and what it computes.

Made with transformers 5.24.0 and torch 2.13.0 on a CPU, in an environment of their own:

    pip install torch transformers
    python tests/goldens/make_huggingface_bert_tiny.py
"""

from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForPreTraining

folder = Path(__file__).parent / "huggingface_bert_tiny"
torch.manual_seed(0)
model = BertForPreTraining(
    BertConfig(
        vocab_size=60,
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=16,
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
    encoded = model.bert(
        input_ids=torch.tensor(token_ids),
        token_type_ids=torch.tensor(segment_ids),
        attention_mask=torch.tensor(padding_mask),
    )
np.savez_compressed(
    folder / "expected.npz",
    token_ids=token_ids.astype("int32"),
    segment_ids=segment_ids.astype("int32"),
    padding_mask=padding_mask.astype("int32"),
    sequence_output=encoded.last_hidden_state.numpy(),
    pooled_output=encoded.pooler_output.numpy(),
)
