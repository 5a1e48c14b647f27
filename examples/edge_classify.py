"""A text to its label on a device: the sentencepiece library, NumPy and a runtime, nothing else.

    albert-keras export --model runs/mail --out phone --format litert-int8
    pip install sentencepiece numpy ai-edge-litert      # or onnxruntime, for an .onnx file
    python examples/edge_classify.py phone "Win a prize now!" "See you at nine."

One line a text: label and probability, or of a regression the number. Of a model for pairs every
two texts are a pair. Measured with ALBERT-base: see the table in the README.

The sentencepiece library cuts a few texts otherwise than the training did, where two ways to cut
are equally likely, such as a letter five hundred times. TensorFlow's op is not on a device.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import sentencepiece

MARKER = "▁"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("texts", nargs="+", metavar="text")
    arguments = parser.parse_args(argv)
    metadata = json.loads((arguments.folder / "metadata.json").read_text(encoding="utf-8"))
    if metadata["kind"] not in ("classify", "regress") or metadata["vocabulary"] != "spiece.model":
        parser.error(
            f"{arguments.folder} is of the kind {metadata['kind']} with {metadata['vocabulary']}; "
            "this example needs a classifier or a regression with spiece.model"
        )
    # An argument that is not UTF-8 comes with lone surrogates.
    arguments.texts = [
        text.encode(errors="surrogateescape").decode(errors="replace") for text in arguments.texts
    ]
    if len(arguments.texts) % (1 + metadata["pair"]):
        parser.error("a pair is two texts")
    vocabulary = sentencepiece.SentencePieceProcessor(
        model_file=str(arguments.folder / metadata["vocabulary"])
    )
    run = load(arguments.folder / metadata["file"])
    texts = [pieces(vocabulary, text) for text in arguments.texts]
    examples = list(zip(texts[::2], texts[1::2], strict=True)) if metadata["pair"] else texts
    # One by one: a device rarely has more at once, and none is padded to the length of another.
    for place, example in enumerate(examples):
        first, second = example if metadata["pair"] else (example, None)
        logits = run(row(first, second, metadata))["logits"][0]
        text = arguments.texts[place * (1 + metadata["pair"])]
        if metadata["kind"] == "regress":
            print(f"{logits[0]:.4f}\t{text}")
        else:
            exponents = np.exp(logits - logits.max())
            best = int(logits.argmax())
            print(f"{metadata['labels'][best]}\t{exponents[best] / exponents.sum():.4f}\t{text}")


def load(path):
    """The model as a function of named arrays to named arrays."""
    if path.suffix == ".tflite":
        from ai_edge_litert.interpreter import Interpreter

        runner = Interpreter(model_path=str(path)).get_signature_runner("serving_default")
        return lambda inputs: runner(**inputs)
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def pieces(vocabulary, text):
    """The ids of a text; the vocabulary's file holds the normalisation.

    ALBERT's one rule beside SentencePiece: a comma behind a digit is a piece of its own.
    """
    ids = []
    for piece in vocabulary.encode(text, out_type=str):
        parts = [piece]
        if piece[-1:] == "," and piece[-2:-1].isdigit():
            parts = vocabulary.encode(piece[:-1].replace(MARKER, ""), out_type=str)
            if not piece.startswith(MARKER):
                parts[0] = parts[0].removeprefix(MARKER)
            parts = [part for part in (*parts, ",") if part]
        ids += [vocabulary.piece_to_id(part) for part in parts]
    return ids


def row(first, second, metadata):
    """The model's inputs for one text, or for two: `[CLS] first [SEP] second [SEP]`."""
    cls, sep, longest = metadata["cls_id"], metadata["sep_id"], metadata["max_length"]
    if second is None:
        ids = [cls, *first[: longest - 2], sep]
        segments = [0] * len(ids)
    else:
        first, second = list(first), list(second)
        while len(first) + len(second) > longest - 3:  # the longer one loses its last piece
            (first if len(first) > len(second) else second).pop()
        ids = [cls, *first, sep, *second, sep]
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    token_ids = np.array([ids], np.int32)
    return {
        "token_ids": token_ids,
        "segment_ids": np.array([segments], np.int32),
        "padding_mask": np.ones_like(token_ids),
    }


if __name__ == "__main__":
    main()
