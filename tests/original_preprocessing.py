"""What google-research/albert does to a text before and after SentencePiece, written anew.

The reference for the baked tokenizer: the same steps, in Python, around the model as it was before
it was baked. Follows `preprocess_text` and `encode_pieces` of their tokenization.py, with the
marker cut from re-encoded digits as those mean to.
"""

import unicodedata

import tensorflow_text as tf_text

from albert_keras.text.model_proto import ModelProto

MARKER = "\u2581"


def preprocess(text: str, lowercase: bool, keep_accents: bool) -> str:
    text = " ".join(text.strip().split())
    if not keep_accents:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in decomposed if not unicodedata.combining(char))
    return text.lower() if lowercase else text


class OriginalTokenizer:
    def __init__(self, model_bytes: bytes, lowercase: bool = True, keep_accents: bool = False):
        model = ModelProto.FromString(model_bytes)
        model.ClearField("self_test_data")
        self.op = tf_text.SentencepieceTokenizer(model.SerializeToString())
        self.pieces = [piece.piece for piece in model.pieces]
        self.ids = {piece: index for index, piece in enumerate(self.pieces)}
        self.settings = lowercase, keep_accents

    def encode(self, texts: list[str]) -> list[list[int]]:
        plain = self.op.tokenize([preprocess(text, *self.settings) for text in texts]).to_list()
        return [[part for piece in row for part in self.split(piece)] for row in plain]

    def split(self, piece_id: int) -> list[int]:
        piece = self.pieces[piece_id]
        if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
            return [piece_id]
        again = self.op.tokenize([piece[:-1].replace(MARKER, "")]).to_list()[0]
        parts = [self.pieces[part] for part in again]
        if piece[0] != MARKER and parts[0][0] == MARKER:
            parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
        return [self.ids.get(part, self.ids["<unk>"]) for part in [*parts, ","]]
