"""Makes `huggingface_question_answering_tiny/` and `huggingface_multiple_choice_tiny/`: small
ALBERTs with those heads that transformers wrote, and what they compute.

Made with transformers 5.24.0 and torch 2.13.0 on a CPU, in an environment of their own:

    pip install torch transformers
    python tests/goldens/make_huggingface_heads_tiny.py

No parameter keeps its initial value, so that a swap or a transpose shows.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import AlbertConfig, AlbertForMultipleChoice, AlbertForQuestionAnswering


def make(kind, name, shape):
    torch.manual_seed(0)
    model = kind(
        AlbertConfig(
            vocab_size=60,
            embedding_size=8,
            hidden_size=12,
            num_hidden_layers=3,
            num_attention_heads=3,
            intermediate_size=20,
            max_position_embeddings=16,
            classifier_dropout_prob=0.25,
        )
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    folder = Path(__file__).parent / name
    model.save_pretrained(folder)

    rng = np.random.default_rng(0)
    token_ids = rng.integers(5, 60, (*shape, 11))
    segment_ids = np.broadcast_to(np.arange(11) > 5, token_ids.shape).astype(int)
    lengths = rng.integers(2, 12, (*shape, 1))
    padding_mask = (np.arange(11) < lengths).astype(int)
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor(token_ids),
            token_type_ids=torch.tensor(segment_ids),
            attention_mask=torch.tensor(padding_mask),
        )
    np.savez_compressed(
        folder / "expected.npz",
        token_ids=token_ids.astype("int32"),
        segment_ids=segment_ids.astype("int32"),
        padding_mask=padding_mask.astype("int32"),
        **{name: value.numpy() for name, value in outputs.items()},
    )


make(AlbertForQuestionAnswering, "huggingface_question_answering_tiny", (3,))
make(AlbertForMultipleChoice, "huggingface_multiple_choice_tiny", (2, 4))
