"""Small files of every family in their official forms, and a tiny model to start from."""

import json

import numpy as np

from albert_keras import build_albert, save_albert
from albert_keras.tasks.finetuning_run import Start
from tests.small_tokenizer import small_tokenizer

WORDS = "license work source copyright notice grant derivative patent terms object".split()


def start(dropout=0.0):
    """A tiny encoder at random weights, the same at each call of `new_encoder`."""
    import tensorflow as tf

    def new_encoder():
        tf.keras.utils.set_random_seed(5)
        return build_albert(
            "tiny",
            vocab_size=small_tokenizer().vocab_size,
            max_position_embeddings=128,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )

    return Start(new_encoder, small_tokenizer(), "some weights")


def save_start(folder):
    """A checkpoint folder of such an encoder, trained on rows of 64 as it says."""
    save_albert(start().new_encoder(), folder, tokenizer=small_tokenizer(), max_length=64)


def sentences(seed, count):
    """Texts with a label that each of their words tells."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        label = int(draws.integers(2))
        yield " ".join(draws.choice(WORDS[5 * label : 5 * label + 5], 6)), label


def write_rte(folder, train=40, dev=20):
    """RTE/train.tsv, dev.tsv and test.tsv, with labels that can be learned."""
    folder.mkdir(parents=True)
    names = ("not_entailment", "entailment")
    for split, count in (("train", train), ("dev", dev), ("test", 7)):
        header = ["index", "sentence1", "sentence2"] + (["label"] if split != "test" else [])
        lines = ["\t".join(header)]
        for number, (text, label) in enumerate(sentences(len(split), count)):
            row = [str(number), text, 'a "quoted work'] + (
                [names[label]] if split != "test" else []
            )
            lines.append("\t".join(row))
        (folder / f"{split}.tsv").write_text("\n".join(lines))  # without a last line end


def write_own(path, count=40, seed=0, numbers=False):
    """A CSV with the columns key, said and mark."""
    lines = ["key,said,mark"]
    for number, (text, label) in enumerate(sentences(seed, count)):
        mark = f"{2.5 * label}" if numbers else ("low", "high")[label]
        lines.append(f'k{number},"{text}, so",{mark}')
    path.write_text("\n".join(lines) + "\n")


def write_squad(folder, unanswerable=False):
    """train-v1.1.json and dev-v1.1.json, or those of 2.0, where half have no answer."""
    folder.mkdir(parents=True)
    version = "v2.0" if unanswerable else "v1.1"
    for split, seed in (("train", 1), ("dev", 2)):
        paragraphs = []
        for number, (text, _) in enumerate(sentences(seed, 8)):
            answer = text.split()[2]
            question = {
                "id": f"{split}{number}",
                "question": "Which one?",
                "answers": [{"text": answer, "answer_start": text.index(f" {answer}") + 1}],
            }
            questions = [question | ({"is_impossible": False} if unanswerable else {})]
            if unanswerable:
                questions.append(
                    {
                        "id": f"{split}{number}-none",
                        "question": "Who?",
                        "answers": [],
                        "is_impossible": True,
                    }
                )
            paragraphs.append({"context": text, "qas": questions})
        data = {"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}
        (folder / f"{split}-{version}.json").write_text(json.dumps(data))


def write_race(folder):
    """train/, dev/ and test/ with a passage of two questions in middle/ and in high/ each."""
    for split, seed in (("train", 1), ("dev", 2), ("test", 3)):
        for level in ("middle", "high"):
            (folder / split / level).mkdir(parents=True)
            for number, (text, label) in enumerate(sentences(seed, 3)):
                passage = {
                    "article": text,
                    "id": f"{level}{number}.txt",
                    "questions": ["It is _ .", "What is it?"],
                    "options": [["one", "two", "three", "four"], ["a", "b", "c", "d"]],
                    "answers": ["AB"[label], "C"],
                }
                (folder / split / level / f"{number}.txt").write_text(json.dumps(passage))
