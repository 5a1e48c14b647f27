"""ALBERT's SentencePiece vocabularies: train one, or import one, with the preprocessing inside.

A *baked* model is a SentencePiece model whose own normaliser does all of ALBERT's preprocessing
(see `normalization`), so that the bytes of the file decide every id and nothing has to be done to
a text before it is tokenised.
"""

import functools
import io
import random
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece

from albert_keras.text import model_proto
from albert_keras.text.digit_comma import is_digit_comma
from albert_keras.text.normalization import (
    BAKED_NAMES,
    albert_rules,
    compile_rules,
    normalizer_name,
    read_charsmap,
    rules_table,
    sentencepiece_rules,
)

PAD, UNK, CLS, SEP, MASK = "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"
_SPECIAL_TYPES = {
    PAD: model_proto.CONTROL,
    UNK: model_proto.UNKNOWN,
    CLS: model_proto.CONTROL,
    SEP: model_proto.CONTROL,
    MASK: model_proto.CONTROL,
}
_TYPE_NAMES = {
    model_proto.NORMAL: "an ordinary piece",
    model_proto.UNKNOWN: "the unknown piece",
    model_proto.CONTROL: "a control piece",
    model_proto.USER_DEFINED: "a user-defined piece, which text can contain",
    model_proto.UNUSED: "an unused piece",
    model_proto.BYTE: "a byte piece",
}
# The released vocabularies keep these apart from every other piece.
_USER_SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]
# SentencePiece adds up its threads' counts as float32, so another number gives other pieces.
_TRAINING_THREADS = 16
# SentencePiece leaves out every sentence with U+2585 or NUL without a word, and stops at a lone
# surrogate.
_UNREADABLE = re.compile("[\0\u2585\ud800-\udfff]")


def train_vocabulary(
    sentences: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    keep_accents: bool = False,
    character_coverage: float = 0.99995,
    max_sentences: int = 500_000,
    seed: int = 0,
) -> bytes:
    """Trains a baked unigram model with ALBERT's layout.

        id 0 <pad>  1 <unk>  2 [CLS]  3 [SEP]  4 [MASK]  5.. ( ) " - . – £ €  13.. learned pieces

    The sentences are read once. At most `max_sentences` of them, drawn evenly from all, are kept
    in memory. The same sentences and arguments give the same bytes on any number of cores.

    Args:
        sentences: any iterable of strings; where they are cut does not matter much.
        vocab_size: int, number of pieces, special ones included. Google's have 30,000.
        lowercase: whether text is lower-cased. Default True.
        keep_accents: whether accents are kept and compatibility characters left to SentencePiece's
            own normaliser. Default False.
        character_coverage: float in (0, 1], the share of the text's characters that get a piece;
            the rarest are left to `<unk>`. Default 0.99995, ALBERT's.
        max_sentences: int > 0, how many sentences are trained on at most. Default 500,000. Training
            needs some 20 bytes for each byte of them: 33 MB of novels took 0.7 GB and 34 s.
        seed: int, draws the sentences when there are more.

    Returns:
        The bytes of a model file, as `SentencepieceTokenizer` takes them.

    Raises:
        ValueError: there is no text, or too little of it for that many pieces, or more characters
            than pieces.

    Example:
        >>> model = train_vocabulary(open("corpus.txt", encoding="utf-8"), vocab_size=8000)
        >>> tokenizer = SentencepieceTokenizer(model)

    Reference: ALBERT (arXiv 1909.11942) 4.1; google-research/albert, README, "SentencePiece".
    """
    fixed = len(_SPECIAL_TYPES) + len(_USER_SYMBOLS)
    if vocab_size <= fixed:
        raise ValueError(
            f"`vocab_size` must be over {fixed}, the number of special pieces and symbols. "
            f"Received: vocab_size={vocab_size}."
        )
    sample = _draw(sentences, max_sentences, random.Random(seed))
    # SentencePiece 0.2.1 ends the process when nothing is left of the text.
    if not any(unicodedata.category(char)[0] in "LN" for line in sample for char in line):
        raise ValueError(
            "A vocabulary is learned from text. Received: no sentence with a letter or a digit. "
            "Check the input files."
        )
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rules.tsv"
        table.write_text(_default_rules(lowercase, keep_accents), encoding="ascii")
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sample),
                model_writer=buffer,
                model_type="unigram",
                vocab_size=vocab_size,
                character_coverage=character_coverage,
                normalization_rule_tsv=str(table),
                pad_id=0,
                unk_id=1,
                bos_id=-1,
                eos_id=-1,
                pad_piece=PAD,
                unk_piece=UNK,
                control_symbols=[CLS, SEP, MASK],
                user_defined_symbols=_USER_SYMBOLS,
                num_threads=_TRAINING_THREADS,
                # Lines over 4,192 bytes would be left out; only their words matter here.
                max_sentence_length=2**30,
                shuffle_input_sentence=False,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _training_error(error, vocab_size) from error
    model = model_proto.ModelProto.FromString(buffer.getvalue())
    # ALBERT's rule that a comma after a digit is a piece of its own.
    for piece in model.pieces:
        if is_digit_comma(piece.piece):
            piece.type = model_proto.UNUSED
    return _finish(model, lowercase, keep_accents)


@functools.cache  # They take two seconds and are the same for every text.
def _default_rules(lowercase: bool, keep_accents: bool) -> str:
    return rules_table(albert_rules(sentencepiece_rules(), lowercase, keep_accents))


def _draw(sentences: Iterable[str], limit: int, generator: random.Random) -> list[str]:
    """Reservoir sampling: each sentence is kept with the same probability.

    SentencePiece has its own, but it cannot be seeded: two processes draw differently.
    """
    sample = []
    for index, sentence in enumerate(_readable(sentences)):
        if index < limit:
            sample.append(sentence)
        else:
            place = generator.randrange(index + 1)
            if place < limit:
                sample[place] = sentence
    return sample


def _readable(sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        yield _UNREADABLE.sub(" ", sentence)


def _training_error(error: RuntimeError, vocab_size: int) -> Exception:
    """SentencePiece's failure in the caller's terms; the same error where it is none of those."""
    message = str(error)
    if "Vocabulary size too high" in message:
        limit = message.rpartition("<=")[2].strip(" .")
        return ValueError(
            f"This text supports a vocabulary of at most {limit} pieces. "
            f"Received: vocab_size={vocab_size}. Ask for fewer pieces or give more text."
        )
    if "smaller than required_chars" in message:
        needed = message.partition(" vs ")[2].partition(".")[0]
        return ValueError(
            f"Every character needs a piece: this text needs at least {needed}. "
            f"Received: vocab_size={vocab_size}. "
            "Ask for more pieces, or leave out text in scripts of many characters."
        )
    return error


def bake(
    model_bytes: bytes,
    lowercase: bool = True,
    keep_accents: bool = False,
    *,
    source: str = "the model",
) -> bytes:
    """An ALBERT vocabulary with the preprocessing made part of it.

    Pieces, ids and scores stay, so the ids of a text are those of the original preprocessing.

    Args:
        model_bytes: a SentencePiece model file, not yet baked.
        lowercase: whether text is lower-cased. Google's English vocabularies are. Default True.
        keep_accents: whether accents are kept. Default False.
        source: what errors call the model, such as its path.

    Raises:
        ValueError: not a SentencePiece model, damaged, without ALBERT's special pieces, or baked
            already.

    Example:
        >>> model = bake(Path("30k-clean.model").read_bytes(), lowercase=True)
    """
    model = parse_vocabulary(model_bytes, source)
    if model.normalizer_spec.name in BAKED_NAMES:
        raise ValueError(
            f"Only a model that is not baked yet can be baked. Received: {source}, baked as "
            f"{model.normalizer_spec.name}. Use it as it is, or start from the original model."
        )
    try:
        own = read_charsmap(model.normalizer_spec.precompiled_charsmap)
    except ValueError as error:
        raise ValueError(
            f"A SentencePiece model must be whole. Received: {source}, whose normaliser cannot be "
            f"read ({error}). Copy the file again."
        ) from error
    rules = albert_rules(own, lowercase, keep_accents)
    model.normalizer_spec.precompiled_charsmap = compile_rules(rules)
    return _finish(model, lowercase, keep_accents)


def _finish(model, lowercase: bool, keep_accents: bool) -> bytes:
    """Names the normaliser that is in the model and serialises."""
    normalizer = model.normalizer_spec
    normalizer.name = normalizer_name(lowercase, keep_accents)
    normalizer.ClearField("normalization_rule_tsv")  # a temporary path
    # The original collapses white space before SentencePiece sees the text.
    normalizer.remove_extra_whitespaces = True
    # Expected pieces of some texts, which the loader compares: they hold no longer.
    model.ClearField("self_test_data")
    return model.SerializeToString(deterministic=True)


def parse_vocabulary(model_bytes: bytes, source: str = "the model"):
    """The model's proto, if it can be an ALBERT vocabulary.

    Args:
        model_bytes: content of a SentencePiece model file, baked or not.
        source: what errors call it, such as its path.

    Raises:
        ValueError: not a SentencePiece model, damaged, or without ALBERT's special pieces.
    """
    if not model_bytes:
        raise ValueError(
            f"A SentencePiece model is expected. Received: {source}, which is empty. "
            "Copy the file again."
        )
    try:
        model = model_proto.ModelProto.FromString(model_bytes)
        pieces = [piece.piece for piece in model.pieces]
    except (model_proto.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"A SentencePiece model is expected. Received: {source}, which is something else or "
            "damaged. An ALBERT vocabulary is usually called spiece.model or 30k-clean.model."
        ) from error
    # The pieces come first in the file and the normaliser after them.
    if not pieces or not model.HasField("normalizer_spec"):
        raise ValueError(
            f"A SentencePiece model is expected. Received: {source}, which holds {len(pieces)} "
            f"pieces and {'a' if model.HasField('normalizer_spec') else 'no'} normaliser: it is "
            "something else or cut short. Copy the file again."
        )
    # SentencePiece's loader crashes on such pieces, or worse; a model file is input like any other.
    if any(not piece or "\0" in piece or len(piece) > 1000 for piece in pieces):
        raise ValueError(
            f"A piece has 1 to 1,000 characters, none of them NUL. Received: {source}, which has "
            "others. Copy the file again."
        )
    if len(set(pieces)) < len(pieces):
        twice = sorted({piece for piece in pieces if pieces.count(piece) > 1})[:5]
        raise ValueError(f"Each piece must occur once. Received: {source} with {twice} repeated.")
    types = {piece.piece: piece.type for piece in model.pieces}
    for special, expected in _SPECIAL_TYPES.items():
        found = types.get(special)
        if found != expected:
            raise ValueError(
                f"In an ALBERT vocabulary {special} is {_TYPE_NAMES[expected]}. "
                f"Received: {source}, in which it is {_TYPE_NAMES.get(found, 'missing')}. "
                "Train the vocabulary with `albert-keras vocab`, or with SentencePiece's "
                "--pad_id=0 --unk_id=1 --bos_id=-1 --eos_id=-1 "
                "--control_symbols=[CLS],[SEP],[MASK]."
            )
    trainer = model.trainer_spec
    if trainer.model_type != model_proto.UNIGRAM or trainer.treat_whitespace_as_suffix:
        raise ValueError(
            "An ALBERT vocabulary is a unigram model that marks where words start. "
            f"Received: {source}, which is of another kind. Train it with `albert-keras vocab`."
        )
    return model
