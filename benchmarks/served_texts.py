"""What the contenders of `benchmarks.serving` share: the texts, slices of rows, and the questions.

Imports NumPy and the standard library only: half of the contenders live in another environment.
"""

import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

MAX_LENGTH = 512
# Padded positions of a slice, as in a SavedModel of ours.
POSITIONS = 512
# What libraries print may stand on the same line of output.
_MARK = "@answer "

# Texts to the number of pieces in them, special ones included, and the seconds that it took to cut
# them into pieces; the answer is waited for.
Answer = Callable[[Sequence[str]], tuple[int, float]]


def texts(corpus: Path, seed: int = 0) -> tuple[list[str], list[str]]:
    """One text of ten words, and 32 of 10 to 200 words, from an English book.

    Plain lower-case words: keras-hub's tokenizer does not lower-case.
    """
    first = min(path for path in corpus.rglob("*") if path.is_file())
    words = re.findall("[a-z]+", first.read_text(encoding="utf-8").lower())
    draws = random.Random(seed)

    def text(length):
        start = draws.randrange(len(words) - length)
        return " ".join(words[start : start + length])

    return [text(10)], [text(draws.randint(10, 200)) for _ in range(32)]


def slices(lengths: Sequence[int], positions: int = POSITIONS) -> Iterator[list[int]]:
    """The rows sorted by length, as many together as have `positions` when they are padded.

    >>> list(slices([3, 9, 2, 8], positions=10))
    [[1], [3], [0, 2]]
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    while order:
        size = max(positions // lengths[order[0]], 1)
        yield order[:size]
        order = order[size:]


def answer_questions(name: str, answer: Answer, corpus: Path) -> None:
    """Measures when it is told to, by lines of standard input, until there are no more.

    A line is "short" or "batch" and how often; an answer is one line of JSON.
    """
    asked = dict(zip(("short", "batch"), texts(corpus), strict=True))
    for question in asked.values():
        for _ in range(2):  # makes what is made at the first run of a shape
            answer(question)
    print(_MARK + json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        question, times = line.split()
        seconds, tokenizing = [], []
        for _ in range(int(times)):
            start = time.perf_counter()
            pieces, tokenized = answer(asked[question])
            seconds.append(time.perf_counter() - start)
            tokenizing.append(tokenized)
        report = {"seconds": seconds, "tokenizing": tokenizing, "pieces": pieces}
        print(_MARK + json.dumps(report), flush=True)


def read_answer(lines: Iterator[str]) -> dict:
    """The next answer of `answer_questions` in what a process prints."""
    for line in lines:
        if line.startswith(_MARK):
            return json.loads(line.removeprefix(_MARK))
    raise RuntimeError("A contender ended without an answer; its errors are above.")
