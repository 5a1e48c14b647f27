"""Every text of a data folder through our tokenizer and through the original's steps.

    python -m tests.parity.all_text FOLDER 30k-clean.model

Compares ids, and normalised strings, which show what an unknown piece would hide. Prints the lines
that differ and ends with their number; but for the one known difference, a capital sigma at the end
of a word. `test_tokenizer.py` does the same on every tenth line. Some minutes.
"""

import json
import sys
from pathlib import Path

import sentencepiece

from albert_keras.text.tokenizer import Tokenizer
from tests.original_preprocessing import OriginalTokenizer, preprocess

MODES = {"lower-cased": (True, False), "cased": (False, False), "accents kept": (True, True)}
LINES = 2000


def texts_in(folder: Path):
    """Lines of text files, cells of tables, and every string in a JSON file."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".txt", ".tsv", ".csv"):
            for line in path.read_bytes().decode(errors="replace").splitlines():
                yield from line.split("\t")
        elif path.suffix in (".json", ".jsonl"):
            lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            for line in lines:
                yield from _strings(json.loads(line))


def _strings(value):
    if isinstance(value, str):
        yield value.encode(errors="replace").decode()  # lone surrogates, as our tokenizer does
    elif isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _strings(item)


def differences(texts: list[str], ours: Tokenizer, theirs: OriginalTokenizer, normalizers, mode):
    """The texts whose ids or normalised strings differ."""
    values, splits = ours.encode_lines(texts)
    own_normalizer, their_normalizer = normalizers
    for row, (text, ids) in enumerate(zip(texts, theirs.encode(texts), strict=True)):
        own_ids = values[splits[row] : splits[row + 1]].tolist()
        own = own_normalizer.normalize(text)
        their = their_normalizer.normalize(preprocess(text, *mode))
        if (own_ids != ids or own != their) and not _is_final_sigma(text, own, their):
            yield text, own, their


def _is_final_sigma(text, own, their):
    return "Σ" in text and own == their.replace("ς", "σ")


def main(folder: str, vocabulary: str) -> int:
    texts = list(dict.fromkeys(texts_in(Path(folder))))
    model = Path(vocabulary).read_bytes()
    found = 0
    for name, mode in MODES.items():
        ours, theirs = Tokenizer.load(vocabulary, *mode), OriginalTokenizer(model, *mode)
        normalizers = [
            sentencepiece.SentencePieceProcessor(model_proto=proto)
            for proto in (ours.model_bytes, model)
        ]
        count = 0
        for first in range(0, len(texts), LINES):
            part = texts[first : first + LINES]
            for text, own, their in differences(part, ours, theirs, normalizers, mode):
                count += 1
                print(f"{name}: {text!r}\n  ours   {own!r}\n  theirs {their!r}")
        characters = sum(map(len, texts))
        print(f"{name}: {count} of {len(texts):,} texts ({characters:,} characters) differ")
        found += count
    return found


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
