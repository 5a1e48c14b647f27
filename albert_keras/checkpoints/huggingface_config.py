"""`config.json` of Hugging Face's ALBERT, from and to `AlbertConfig`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_keras.config import AlbertConfig, SharingPattern, shortest_sharing

# Names of the same function. Theirs "gelu" is the exact one, Google's "gelu" is the tanh form.
ACTIVATIONS = {"gelu_tanh": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}

# Their other names of these.
ALIASES = {"gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_python": "gelu_erf"}

# Named alike on both sides.
SAME = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
)
GROUPS = ("num_hidden_layers", "num_hidden_groups", "inner_group_num")
REQUIRED = (*SAME, "hidden_act", *GROUPS)

# Keys that must have one value, because another would be another model.
FIXED = {
    "model_type": "albert",
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
    "tie_encoder_decoder": False,
}

# Keys that do not change the numbers: of heads (read in `head.py`), of their library, and
# those that Google's published configs carry without any code that reads them.
IGNORED = {
    *("architectures", "classifier_dropout_prob", "id2label", "label2id", "problem_type"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "transformers_version"),
    *("dtype", "torch_dtype", "use_cache", "return_dict", "num_labels"),
    # Written by transformers 2 to 4 into every config: of its outputs, its text generation, its
    # tokenizers, its trainer.
    *("output_attentions", "output_hidden_states", "output_past", "use_return_dict", "torchscript"),
    *("use_bfloat16", "tf_legacy_loss", "chunk_size_feed_forward", "gradient_checkpointing"),
    *("finetuning_task", "task_specific_params", "tokenizer_class", "prefix", "xla_device"),
    *("sep_token_id", "mask_token_id", "unk_token_id", "decoder_start_token_id"),
    *("do_sample", "early_stopping", "length_penalty", "max_length", "min_length", "num_beams"),
    *("num_beam_groups", "num_return_sequences", "no_repeat_ngram_size", "repetition_penalty"),
    *("temperature", "top_k", "top_p", "typical_p", "diversity_penalty", "bad_words_ids"),
    *("encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "suppress_tokens"),
    *("begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id"),
    *("remove_invalid_values", "output_scores", "return_dict_in_generate"),
    *("cross_attention_hidden_size", "language", "name", "directionality"),
    *("net_structure_type", "gap_size", "num_memory_blocks", "layers_to_keep"),
    "down_scale_factor",
}


class LayerGroups(NamedTuple):
    """Their way to say which layers share: `layers` times a group of `inner` layers, the groups
    taken from `groups` different ones in order."""

    layers: int
    groups: int
    inner: int

    @classmethod
    def read(cls, fields: Mapping[str, Any], keys: Sequence[str], where: str) -> "LayerGroups":
        """Those that a config's `fields` have at `keys`, in the order of the arguments above.

        Raises:
            ValueError: numbers that make no model; `where` is the config's path.
        """
        groups = cls(*(fields[key] for key in keys))
        if not all(type(size) is int and size > 0 for size in groups) or (
            groups.groups > groups.layers
        ):
            raise ValueError(
                f"{where}: these layer groups make no model. {', '.join(keys)} must be whole "
                "numbers of at least 1, and not more groups than layers. Received: "
                f"{', '.join(repr(size) for size in groups)}."
            )
        return groups

    def blocks(self) -> list[tuple[int, int]]:
        """(group, layer within it) of each single layer, first to last.

        >>> LayerGroups(layers=4, groups=2, inner=1).blocks()
        [(0, 0), (0, 0), (1, 0), (1, 0)]
        >>> LayerGroups(layers=2, groups=1, inner=2).blocks()
        [(0, 0), (0, 1), (0, 0), (0, 1)]
        """
        # Their own formula, floating point and all: it decides what their library computes.
        groups = [int(layer / (self.layers / self.groups)) for layer in range(self.layers)]
        return [(group, layer) for group in groups for layer in range(self.inner)]

    def pattern(self) -> SharingPattern:
        """The same as block indices, counted in the order of their first use."""
        index: dict[tuple[int, int], int] = {}
        half = tuple(index.setdefault(block, len(index)) for block in self.blocks())
        return SharingPattern(half, half)


def groups_for(pattern: SharingPattern) -> LayerGroups:
    """The groups that say `pattern`; where none do, a group of its own for every layer.

    >>> groups_for(SharingPattern((0, 0, 1, 1), (0, 0, 1, 1)))
    LayerGroups(layers=4, groups=2, inner=1)
    >>> groups_for(SharingPattern((0, 0, 0, 0), (0, 1, 2, 3)))
    LayerGroups(layers=4, groups=4, inner=1)
    """
    depth = len(pattern.attention)
    for inner in range(1, depth + 1):
        if depth % inner == 0:
            for groups in range(1, depth // inner + 1):
                candidate = LayerGroups(depth // inner, groups, inner)
                if candidate.pattern() == pattern:
                    return candidate
    return LayerGroups(depth, depth, 1)


def to_huggingface(config: AlbertConfig) -> dict[str, Any]:
    """The part of `config.json` that says what the encoder is."""
    groups = groups_for(config.sharing_pattern)
    return {
        "model_type": "albert",
        **{name: getattr(config, name) for name in SAME},
        "hidden_act": ACTIVATIONS[config.hidden_act],
        "num_hidden_layers": groups.layers,
        "num_hidden_groups": groups.groups,
        "inner_group_num": groups.inner,
    }


def from_huggingface(fields: Mapping[str, Any], where: str) -> tuple[AlbertConfig, LayerGroups]:
    """The config that a `config.json` describes, and the groups in which its file is written.

    Args:
        fields: the parsed `config.json`.
        where: its path, for error messages.

    Raises:
        ValueError: a missing or unknown key, or a value for which this library has no model.
    """
    missing = [key for key in REQUIRED if key not in fields]
    known = {*REQUIRED, *FIXED, *IGNORED}
    # A leading underscore marks what their library notes for itself.
    unknown = [key for key in fields if key not in known and not key.startswith("_")]
    if missing or unknown:
        raise ValueError(
            f"{where} must be the config of an ALBERT. Missing keys: {missing}. Unknown keys: "
            f"{unknown}. Remove an unknown key if it does not change what the model computes."
        )
    for key, value in FIXED.items():
        if fields.get(key, value) != value:
            raise ValueError(f"{where}: `{key}` must be {value!r}. Received: {fields[key]!r}.")
    activations = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | ALIASES
    if fields["hidden_act"] not in [*activations]:  # a list has no hash
        raise ValueError(
            f"{where}: `hidden_act` must be one of {', '.join(activations)}. "
            f"Received: {fields['hidden_act']!r}."
        )
    groups = LayerGroups.read(fields, GROUPS, where)
    pattern = groups.pattern()
    try:
        config = AlbertConfig(
            **{name: fields[name] for name in SAME},
            hidden_act=activations[fields["hidden_act"]],
            num_hidden_layers=len(pattern.attention),
            sharing=shortest_sharing(pattern),
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return config, groups
