"""BERT's tokenization in plain Python, written from its description, and vocabularies for it.

The reference for WordpieceTokenizer. Follows what google-research/bert's tokenization.py does (the
ALBERT repository has the same), one character at a time and with nothing shared with the library.
"""

import string
import unicodedata
from collections import Counter

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHINESE = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
CHINESE += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def is_chinese(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in CHINESE)


def is_dropped(char: str) -> bool:
    if char in "\t\n\r":
        return False
    return char in "\x00\ufffd" or unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char)[0] == "P"


def words_of(text: str, lowercase: bool = True, keep_accents: bool = False) -> list[str]:
    text = "".join(char for char in text if not is_dropped(char))
    text = "".join(f" {char} " if is_chinese(char) else char for char in text)
    found = []
    for run in text.split():
        if lowercase:
            run = run.lower()
        if not keep_accents:
            run = unicodedata.normalize("NFD", run)
            run = "".join(char for char in run if unicodedata.category(char) != "Mn")
        found += "".join(f" {char} " if is_punctuation(char) else char for char in run).split()
    return found


class OriginalWordpiece:
    def __init__(self, pieces: list[str], lowercase: bool = True, keep_accents: bool = False):
        self.ids = {piece: index for index, piece in enumerate(pieces)}
        self.settings = lowercase, keep_accents

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [
            [self.ids[piece] for word in words_of(text, *self.settings) for piece in self.cut(word)]
            for text in texts
        ]

    def cut(self, word: str) -> list[str]:
        pieces, rest = [], word
        while rest and len(word) <= 200:
            mark = "##" if pieces else ""
            lengths = (n for n in range(len(rest), 0, -1) if mark + rest[:n] in self.ids)
            length = next(lengths, None)
            if length is None:
                return ["[UNK]"]
            pieces.append(mark + rest[:length])
            rest = rest[length:]
        return pieces or ["[UNK]"]


def vocabulary_of(texts: list[str], size: int = 3000, **settings) -> list[str]:
    """Frequent words, beginnings, ends and characters of some texts, `size` of them at most.

    Rare characters get no piece, so that there are unknown words.
    """
    counts = Counter()
    words = Counter(word for text in texts for word in words_of(text, **settings))
    for word, count in words.items():
        if len(word) > 40:
            continue
        counts[word] += 4 * count
        for length in range(1, min(len(word), 6)):
            counts[word[:length]] += count
            counts["##" + word[-length:]] += count
        for char in word[1:]:
            counts["##" + char] += 4 * count
    return SPECIAL + [piece for piece, _ in counts.most_common(size)]


def file_of(pieces: list[str]) -> bytes:
    return "".join(f"{piece}\n" for piece in pieces).encode()
