import dataclasses
import json

import pytest

from albert_keras.config import (
    PRESETS,
    AlbertConfig,
    SharingPattern,
    config_from,
    shortest_sharing,
)

pytestmark = pytest.mark.both_kerases


def test_the_defaults_are_albert_base_without_dropout():
    config = AlbertConfig()
    assert config == PRESETS["base"]
    assert (config.embedding_size, config.hidden_size, config.num_hidden_layers) == (128, 768, 12)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0
    assert config.layer_norm_eps == 1e-12


def test_presets_have_the_sizes_of_the_paper():
    # ALBERT, table 1, and heads = H / 64.
    sizes = {"base": (12, 768), "large": (24, 1024), "xlarge": (24, 2048), "xxlarge": (12, 4096)}
    for name, (layers, hidden) in sizes.items():
        config = PRESETS[name]
        assert (config.num_hidden_layers, config.hidden_size) == (layers, hidden)
        assert config.num_attention_heads == hidden // 64
        assert config.intermediate_size == 4 * hidden
        assert (config.embedding_size, config.sharing) == (128, "all")
    for name in ("bert-base", "bert-large"):
        assert PRESETS[name].embedding_size == PRESETS[name].hidden_size
        assert PRESETS[name].sharing == "none"


@pytest.mark.parametrize(
    "sharing,attention,ffn",
    [
        ("all", (0, 0, 0, 0), (0, 0, 0, 0)),
        ("attention", (0, 0, 0, 0), (0, 1, 2, 3)),
        ("ffn", (0, 1, 2, 3), (0, 0, 0, 0)),
        ("none", (0, 1, 2, 3), (0, 1, 2, 3)),
        (1, (0, 1, 2, 3), (0, 1, 2, 3)),
        (2, (0, 0, 1, 1), (0, 0, 1, 1)),
        (4, (0, 0, 0, 0), (0, 0, 0, 0)),
        (SharingPattern((0, 1, 2, 2), (1, 0, 0, 0)), (0, 1, 2, 2), (1, 0, 0, 0)),
        (([0, 1, 1, 1], [0, 0, 0, 0]), (0, 1, 1, 1), (0, 0, 0, 0)),
    ],
)
def test_sharing_gives_the_pattern_of_blocks(sharing, attention, ffn):
    config = AlbertConfig(num_hidden_layers=4, sharing=sharing)
    assert config.sharing_pattern == SharingPattern(attention, ffn)


def test_groups_are_assigned_in_whole_numbers():
    # int(i / L * G), the original's form, puts these layers into the previous group.
    for layers, groups, layer in [(22, 22, 15), (23, 23, 13), (44, 22, 30)]:
        config = AlbertConfig(num_hidden_layers=layers, sharing=layers // groups)
        assert int(layer / layers * groups) != layer * groups // layers
        assert config.sharing_pattern.attention[layer] == layer * groups // layers
    for layers in range(1, 49):
        for groups in (g for g in range(1, layers + 1) if layers % g == 0):
            pattern = AlbertConfig(num_hidden_layers=layers, sharing=layers // groups)
            expected = tuple(i * groups // layers for i in range(layers))
            assert pattern.sharing_pattern == (expected, expected)


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none", 2, 3])
def test_the_shortest_sharing_is_the_one_it_came_from(sharing):
    pattern = AlbertConfig(num_hidden_layers=6, sharing=sharing).sharing_pattern
    assert shortest_sharing(pattern) == sharing


def test_the_shortest_sharing_of_an_uneven_pattern_is_itself():
    pattern = SharingPattern((0, 1, 1, 1), (0, 0, 0, 1))
    assert shortest_sharing(pattern) == pattern


@pytest.mark.parametrize("sharing", ["ffn", 2, SharingPattern((0, 1, 1, 1), (0, 0, 0, 1))])
def test_a_config_survives_json(sharing):
    config = AlbertConfig(num_hidden_layers=4, sharing=sharing, vocab_size=77)
    again = AlbertConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert hash(again) == hash(config)


def test_a_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        AlbertConfig().hidden_size = 3


def test_an_unknown_preset_is_refused_with_all_names_and_a_suggestion():
    with pytest.raises(ValueError, match="one of base, .*small.*'smal'. Did you mean 'small'") as e:
        config_from("smal", {})
    assert all(name in str(e.value) for name in PRESETS)


def test_an_unknown_key_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="'hiden_size' .did you mean 'hidden_size'"):
        AlbertConfig.from_dict({"hiden_size": 768})


@pytest.mark.parametrize(
    "fields,message",
    [
        ({"hidden_size": 770}, "multiple of `num_attention_heads`. Received: hidden_size 770"),
        ({"vocab_size": 0}, "`vocab_size` must be a whole number of at least 1. Received: 0"),
        ({"num_hidden_layers": -1}, "`num_hidden_layers` must be a whole number"),
        ({"intermediate_size": 3072.0}, "`intermediate_size` must be a whole number"),
        ({"hidden_dropout_prob": 1.0}, "`hidden_dropout_prob` must be at least 0 and below 1"),
        ({"layer_norm_eps": 0.0}, "`layer_norm_eps` must be above 0"),
        ({"sharing": 5}, "must divide `num_hidden_layers`. Received: sharing 5"),
        ({"sharing": -4}, "must divide `num_hidden_layers`"),
        ({"sharing": "atention"}, "Did you mean 'attention'"),
        ({"sharing": True}, "`sharing` must be one of"),
        ({"sharing": None}, "`sharing` must be one of"),
        ({"sharing": SharingPattern((0, 0), (0,) * 12)}, "attention pattern .* 12 layers"),
        ({"sharing": SharingPattern((0,) * 12, (0, 2) * 6)}, "ffn pattern .* without gaps"),
        ({"sharing": SharingPattern((0,) * 12, (1,) * 12)}, "ffn pattern .* without gaps"),
        ({"sharing": SharingPattern((-1,) * 12, (0,) * 12)}, "attention pattern .* without gaps"),
    ],
)
def test_values_that_make_no_model_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        AlbertConfig(**fields)
