"""AlbertConfig: what a model is, as one frozen record, and the named sizes in PRESETS."""

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class SharingPattern(NamedTuple):
    """Which block of weights each layer uses, separately for its two halves.

    `SharingPattern(attention=(0, 1, 2, 2), ffn=(0, 0, 0, 0))`: four layers, the last two share an
    attention block, all share one feed-forward block.
    """

    attention: tuple[int, ...]
    ffn: tuple[int, ...]


ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu")
SHARING_MODES = ("all", "attention", "ffn", "none")


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """What an ALBERT model is; the field names are those of the original's albert_config.json.

    The defaults are ALBERT-base. What a training run does (rates, lengths, steps) is not here.

    Args:
        vocab_size: int, V, pieces of the vocabulary.
        embedding_size: int, E, width of the embedding tables. E == H leaves out the projection,
            unless `always_project`.
        hidden_size: int, H, a multiple of `num_attention_heads`.
        num_hidden_layers: int, L.
        num_attention_heads: int, N; H / 64 in the paper.
        intermediate_size: int, I, width inside the feed-forward half; 4 H in the paper.
        hidden_act: str, "gelu_tanh", "gelu_erf" or "relu".
        hidden_dropout_prob: float in [0, 1).
        attention_probs_dropout_prob: float in [0, 1).
        max_position_embeddings: int, P, the longest sequence.
        type_vocab_size: int, how many segment ids there are.
        initializer_range: float, standard deviation of the initial weights.
        layer_norm_eps: float.
        sharing: which layers share weights. "all", "attention" (only), "ffn" (only), "none"; an
            int M: each M consecutive layers share a block; or a `SharingPattern`.
        always_project: a projection even where E == H, as Hugging Face's models and keras-hub's
            have one.

    Raises:
        ValueError: a size below 1, H not a multiple of N, a dropout rate outside [0, 1), or a
            sharing that does not fit L.

    Example:

    >>> AlbertConfig(num_hidden_layers=4, sharing=2).sharing_pattern
    SharingPattern(attention=(0, 0, 1, 1), ffn=(0, 0, 1, 1))

    Reference:
        ALBERT, sections 3.1 and 3.2, https://arxiv.org/abs/1909.11942
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    sharing: str | int | SharingPattern = "all"
    always_project: bool = False

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise ValueError(
                    f"`{field.name}` must be a whole number of at least 1. Received: {value!r}."
                )
            if field.type is float and (
                type(value) not in (int, float) or not math.isfinite(value)
            ):
                raise ValueError(f"`{field.name}` must be a finite number. Received: {value!r}.")
        if type(self.always_project) is not bool:
            raise ValueError(
                f"`always_project` must be true or false. Received: {self.always_project!r}."
            )
        if self.hidden_act not in ACTIVATIONS:
            # "gelu" is one thing to Google and another to Hugging Face.
            raise ValueError(
                f"`hidden_act` must be one of {', '.join(ACTIVATIONS)}. Received: "
                f'{self.hidden_act!r}. Use "gelu_tanh" (Google\'s "gelu", Hugging Face\'s '
                '"gelu_new") or "gelu_erf" (Hugging Face\'s "gelu").'
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be at least 0 and below 1. Received: {getattr(self, name)!r}."
                )
        for name in ("initializer_range", "layer_norm_eps"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be above 0. Received: {getattr(self, name)!r}.")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_attention_heads`. Received: "
                f"hidden_size {self.hidden_size}, num_attention_heads "
                f"{self.num_attention_heads}. Change one of them."
            )
        object.__setattr__(self, "sharing", _checked(self.sharing, self.num_hidden_layers))

    @property
    def sharing_pattern(self) -> SharingPattern:
        """The block that each layer uses, whatever the form of `sharing`."""
        if isinstance(self.sharing, SharingPattern):
            return self.sharing
        layers = range(self.num_hidden_layers)
        shared, own = tuple(0 for _ in layers), tuple(layers)
        if isinstance(self.sharing, int):
            # Whole numbers: the original's int(i / L * G) puts a few layers into the wrong group
            # (L = G = 22, layer 15).
            groups = tuple(layer // self.sharing for layer in layers)
            return SharingPattern(groups, groups)
        return {
            "all": SharingPattern(shared, shared),
            "attention": SharingPattern(shared, own),
            "ffn": SharingPattern(own, shared),
            "none": SharingPattern(own, own),
        }[self.sharing]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them; `from_dict` reads them back."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if isinstance(self.sharing, SharingPattern):
            fields["sharing"] = {
                "attention": list(self.sharing.attention),
                "ffn": list(self.sharing.ffn),
            }
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "AlbertConfig":
        """A config from `to_dict`'s form. An unknown key is a `ValueError`; a missing one is its
        default."""
        check_keys(fields)
        return cls(**fields)


def check_keys(keys: Iterable[str]) -> None:
    """Raises a `ValueError` for the keys that are no field of `AlbertConfig`, with a suggestion."""
    names = [field.name for field in dataclasses.fields(AlbertConfig)]
    unknown = [key for key in keys if key not in names]
    if unknown:
        close = {key: difflib.get_close_matches(key, names, n=1) for key in unknown}
        hints = [
            f"{key!r} (did you mean {c[0]!r}?)" if c else repr(key) for key, c in close.items()
        ]
        raise ValueError(
            f"An ALBERT config has the keys {', '.join(names)}. Received: {', '.join(hints)}."
        )


def shortest_sharing(pattern: SharingPattern) -> str | int | SharingPattern:
    """The shortest `sharing` that means `pattern`: a mode, else a group size, else itself."""
    num_layers = len(pattern.attention)
    sizes = [size for size in range(2, num_layers) if num_layers % size == 0]
    for sharing in (*SHARING_MODES, *sizes):
        if AlbertConfig(num_hidden_layers=num_layers, sharing=sharing).sharing_pattern == pattern:
            return sharing
    return pattern


def _checked(sharing: Any, num_layers: int) -> str | int | SharingPattern:
    if isinstance(sharing, str) and sharing in SHARING_MODES:
        return sharing
    if type(sharing) is int:
        if sharing < 1 or num_layers % sharing:
            raise ValueError(
                "`sharing` as a group size must divide `num_hidden_layers`. Received: sharing "
                f"{sharing}, num_hidden_layers {num_layers}. Write uneven groups as a "
                "SharingPattern."
            )
        return sharing
    if isinstance(sharing, Mapping) and set(sharing) == set(SharingPattern._fields):
        sharing = SharingPattern(**sharing)
    if isinstance(sharing, (tuple, list)) and len(sharing) == 2:
        return SharingPattern(
            *(
                _checked_half(name, half, num_layers)
                for name, half in zip(SharingPattern._fields, sharing, strict=True)
            )
        )
    close = difflib.get_close_matches(str(sharing), SHARING_MODES, n=1)
    raise ValueError(
        f"`sharing` must be one of {', '.join(SHARING_MODES)}, a group size, or a "
        f"SharingPattern(attention, ffn). Received: {sharing!r}."
        + (f" Did you mean {close[0]!r}?" if close else "")
    )


def _checked_half(name: str, half: Iterable[int], num_layers: int) -> tuple[int, ...]:
    half = tuple(half) if isinstance(half, Iterable) else (half,)
    whole = all(type(block) is int for block in half)
    if len(half) != num_layers or not whole or set(half) != set(range(max(half) + 1)):
        raise ValueError(
            f"The {name} pattern of `sharing` must name a block for each of the {num_layers} "
            f"layers, counted from 0 without gaps. Received: {half}."
        )
    return half


def _size(hidden: int, layers: int, heads: int, **others: Any) -> AlbertConfig:
    return AlbertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        **others,
    )


PRESETS: dict[str, AlbertConfig] = {
    "base": _size(768, 12, 12),
    "large": _size(1024, 24, 16),
    # 32 heads as the paper's rule and TF-Hub's config say; several published configs say 16.
    "xlarge": _size(2048, 24, 32),
    "xxlarge": _size(4096, 12, 64),
    "bert-base": _size(768, 12, 12, embedding_size=768, hidden_act="gelu_erf", sharing="none"),
    "bert-large": _size(1024, 24, 16, embedding_size=1024, hidden_act="gelu_erf", sharing="none"),
    # For a few minutes on a laptop's CPU. With the original's 0.02 a model this narrow stays at
    # the unigram entropy for most of that time.
    "small": _size(
        128,
        2,
        4,
        vocab_size=4000,
        max_position_embeddings=128,
        initializer_range=0.05,
    ),
    # For tests: every size is different from every other, so that a swap shows.
    "tiny": _size(24, 3, 2, vocab_size=100, embedding_size=8, max_position_embeddings=64),
}


def config_from(preset_or_config: str | AlbertConfig, overrides: Mapping[str, Any]) -> AlbertConfig:
    """A preset or config with some of its fields replaced.

    Raises:
        ValueError: an unknown preset or field, or values that make no model.
    """
    if isinstance(preset_or_config, AlbertConfig):
        config = preset_or_config
    elif preset_or_config in PRESETS:
        config = PRESETS[preset_or_config]
    else:
        close = difflib.get_close_matches(str(preset_or_config), PRESETS, n=1)
        raise ValueError(
            f"A preset is one of {', '.join(PRESETS)}. Received: {preset_or_config!r}."
            + (f" Did you mean {close[0]!r}?" if close else "")
        )
    check_keys(overrides)
    return dataclasses.replace(config, **overrides)
