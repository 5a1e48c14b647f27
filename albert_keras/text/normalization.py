"""ALBERT's text preprocessing as SentencePiece normaliser rules.

The original preprocesses in Python (white space, NFKD, no combining characters, lower-case) and
then hands the text to a SentencePiece model that normalises once more. A graph that must take raw
strings cannot call Python, so both steps become one table of rules inside the model file:

    "É" -> "e"    "\\u0301" -> ""    "ﬁ" -> "fi"    "\\u3000" -> " "    "①" -> "1"

About 7,700 rules are for single characters. The others are for sequences that the model's own
normaliser composes: Hangul syllables from their letters, two-part vowels of Indic scripts and,
where accents are kept, a letter with its combining marks.

Reference: google-research/albert, `tokenization.py`, `preprocess_text`.
"""

import io
import tempfile
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import sentencepiece

from albert_keras.text import model_proto
from albert_keras.text.unicode_version import NEWER_THAN_UNICODE_14

# (lowercase, keep_accents) of a baked model, by the name of its normaliser.
BAKED_NAMES = {
    "albert_keras_lower": (True, False),
    "albert_keras_cased": (False, False),
    "albert_keras_lower_accents": (True, True),
    "albert_keras_cased_accents": (False, True),
}


def normalizer_name(lowercase: bool, keep_accents: bool) -> str:
    """The name under which a baked model says how it treats case and accents."""
    return next(k for k, v in BAKED_NAMES.items() if v == (bool(lowercase), bool(keep_accents)))


def albert_rules(own: Mapping[str, str], lowercase: bool, keep_accents: bool) -> dict[str, str]:
    """Rules that do in one step what the original does in Python and `own` does afterwards.

    The rule of a character is a space for white space, else `own` applied to the lower-case form
    of its compatibility decomposition without combining characters.

    One thing cannot be said by rules: Python's `lower()` writes a capital sigma at the end of a
    word as "ς"; here it is always "σ".

    Args:
        own: rules of the model's own normaliser, as `read_charsmap` gives them.
        lowercase: whether the text is lower-cased.
        keep_accents: whether the decomposition and the removal of combining characters are left
            out, as Hugging Face's `keep_accents` does.

    Returns:
        Dict from a sequence of characters to its replacement; what is not in it stays.

    Example:

    >>> rules = albert_rules({"①": "1"}, lowercase=True, keep_accents=False)
    >>> rules["É"], rules["①"], rules["\\u0301"], "e" in rules
    ('e', '1', '', False)
    """

    def preprocess(text):
        if not keep_accents:
            decomposed = unicodedata.normalize("NFKD", text)
            text = "".join(c for c in decomposed if not unicodedata.combining(c))
        return text.lower() if lowercase else text

    rules = {}
    # Beyond plane 2 no character has a case, a decomposition or a combining class.
    for char in sorted({*map(chr, range(0x30000)), *(key for key in own if len(key) == 1)}):
        if "\ud800" <= char <= "\udfff" or char == "\0":
            continue
        if char.isspace():
            result = " "
        else:
            newer = char in NEWER_THAN_UNICODE_14
            result = apply_rules(own, char if newer else preprocess(char))
        if result != char:
            rules[char] = result
    # Shorter sequences first, so that a longer one becomes a rule only where they do not suffice.
    for sequence in sorted((key for key in own if len(key) > 1), key=lambda key: (len(key), key)):
        result = apply_rules(own, preprocess(sequence))
        if result != apply_rules(rules, sequence):
            rules[sequence] = result
    return rules


def apply_rules(rules: Mapping[str, str], text: str) -> str:
    """`text` after the rules, as SentencePiece applies them: from the left, the longest first.

    Example:

    >>> apply_rules({"a": "x", "ab": "y"}, "aabc")
    'xyc'
    """
    longest = 4  # characters in the longest rule of SentencePiece's normalisers
    output, position = [], 0
    while position < len(text):
        for length in range(min(longest, len(text) - position), 0, -1):
            result = rules.get(text[position : position + length])
            if result is not None:
                break
        else:
            result = text[position]
        output.append(result)
        position += length
    return "".join(output)


def read_charsmap(charsmap: bytes) -> dict[str, str]:
    """The rules in a model's `precompiled_charsmap`.

    The bytes are the size of a trie, the trie (a "double array" of uint32: Darts-clone), and the
    replacements, each ended by a zero byte.

    Raises:
        ValueError: the bytes are not such a map.
    """
    if not charsmap:
        return {}
    size = int.from_bytes(charsmap[:4], "little")
    if size % 4 or not 0 < size <= len(charsmap) - 5 or charsmap[-1] != 0:
        raise ValueError("The normaliser's table of rules is damaged.")
    units = np.frombuffer(charsmap, "<u4", size // 4, offset=4)
    replacements = charsmap[4 + size :]
    # A unit with label c is the child of the node whose offset is its own index XOR c, so the
    # children of a node are the units that share this offset.
    labels = units & 0xFF
    offsets = np.arange(len(units), dtype=np.uint32) ^ labels
    offsets[(units & 0x80000000) != 0] = 0xFFFFFFFF  # the end of a rule, not a child
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]

    def children_offset(nodes):
        values = units[nodes]
        return nodes ^ ((values >> 10) << ((values & 0x200) >> 6))

    letters = [bytes((label,)) for label in range(256)]
    rules = {}
    depth, keys, ends = 0, [b""], children_offset(np.zeros(1, np.uint32))
    while keys:
        first = np.searchsorted(offsets, ends, "left")
        counts = np.searchsorted(offsets, ends, "right") - first
        # A damaged table can hold a cycle; no whole one has keys of 64 bytes or a million nodes
        # in a level.
        if depth == 64 or counts.sum() > 1_000_000:
            raise ValueError("The normaliser's table of rules is damaged.")
        parents = np.repeat(np.arange(len(keys)), counts)
        places = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes = order[places + np.repeat(first, counts)].astype(np.uint32)
        ending = labels[nodes].tolist()
        keys = [keys[p] + letters[c] for p, c in zip(parents.tolist(), ending, strict=True)]
        ends = children_offset(nodes)
        depth += 1
        complete = np.flatnonzero(units[nodes] & 0x100)
        if np.any(ends[complete] >= len(units)):
            raise ValueError("The normaliser's table of rules is damaged.")
        starts = units[ends[complete]] & 0x7FFFFFFF
        for index, start in zip(complete.tolist(), starts.tolist(), strict=True):
            replacement = replacements[start : replacements.index(b"\0", start)]
            rules[keys[index].decode()] = replacement.decode()
    return rules


def rules_table(rules: Mapping[str, str]) -> str:
    """The rules as SentencePiece's trainer reads them from a file: hexadecimal code points.

    Example:

    >>> rules_table({"é": "e", "\u0301": ""})
    '301\\t\\nE9\\t65\\n'
    """

    def code_points(text):
        return " ".join(f"{ord(char):X}" for char in text)

    return "".join(f"{code_points(k)}\t{code_points(rules[k])}\n" for k in sorted(rules))


def compile_rules(rules: Mapping[str, str]) -> bytes:
    """The rules as a `precompiled_charsmap`, made by SentencePiece's trainer."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rules.tsv"
        table.write_text(rules_table(rules), encoding="ascii")
        return _charsmap(normalization_rule_tsv=str(table))


def sentencepiece_rules() -> dict[str, str]:
    """The rules of SentencePiece's default normaliser (nmt_nfkc), which ALBERT trained with."""
    return read_charsmap(_charsmap(normalization_rule_name="nmt_nfkc"))


def _charsmap(**normalizer) -> bytes:
    # SentencePiece compiles a table only while it trains a model, so it trains one of a letter.
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a"]),
        model_writer=buffer,
        model_type="char",
        vocab_size=10,
        hard_vocab_limit=False,
        minloglevel=2,
        **normalizer,
    )
    model = model_proto.ModelProto.FromString(buffer.getvalue())
    return model.normalizer_spec.precompiled_charsmap
