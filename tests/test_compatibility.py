"""docs/compatibility.md: the tests it names are there, and the rows that no other test holds."""

import re
from pathlib import Path

import pytest

from albert_keras.checkpoints import load_albert, save_albert
from albert_keras.checkpoints.tf1 import config_from_google, read_tf1, write_tf1
from albert_keras.model import build_albert

ROOT = Path(__file__).resolve().parents[1]

# Google's Chinese xxlarge, whose heads have 256 columns and not 64.
CHINESE_XXLARGE = {
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.0,
    "embedding_size": 128,
    "hidden_size": 4096,
    "initializer_range": 0.01,
    "intermediate_size": 16384,
    "max_position_embeddings": 512,
    "num_attention_heads": 16,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
    "net_structure_type": 0,
    "layers_to_keep": [],
    "gap_size": 0,
    "num_memory_blocks": 0,
    "down_scale_factor": 1,
    "type_vocab_size": 2,
    "vocab_size": 21128,
}


def test_every_row_names_tests_that_are_there():
    rows = (ROOT / "docs" / "compatibility.md").read_text().split("|---|---|---|---|\n")[1]
    for row in rows.splitlines():
        names = re.findall(r"`(\w+\.py)`", row.rsplit("|", 2)[1])
        assert names and all((ROOT / "tests" / name).is_file() for name in names), row


@pytest.mark.both_kerases
def test_the_heads_and_the_activation_of_the_chinese_xxlarge_are_its_files():
    config, _ = config_from_google(CHINESE_XXLARGE, "albert_config.json")
    assert (config.num_attention_heads, config.hidden_act) == (16, "relu")


@pytest.mark.both_kerases
def test_heads_wider_than_64_columns_come_back_from_each_format(tmp_path):
    model = build_albert("tiny", hidden_size=512, num_attention_heads=2, hidden_act="relu")
    save_albert(model, tmp_path / "ours")
    write_tf1(model, tmp_path / "google")
    for read in (load_albert(tmp_path / "ours")[0], read_tf1(tmp_path / "google")[0]):
        encoder = read.get_layer("encoder")
        assert (encoder.num_heads, encoder.activation) == (2, "relu")
