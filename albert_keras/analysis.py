"""What a folder of ours holds, and what a model in it costs."""

import json
from pathlib import Path
from typing import Any

from albert_keras.checkpoints import find_checkpoint, load_albert
from albert_keras.data.records import MANIFEST
from albert_keras.model import config_of
from albert_keras.text.tokenizer import MODEL_FILE, Tokenizer
from albert_keras.training import SETTINGS, STATE


def describe(path: str | Path) -> dict[str, Any]:
    """Names and values for whatever is at `path`.

    Args:
        path: a vocabulary, a record set, a run, a checkpoint folder or an export, by its folder; or
            a SentencePiece model file.

    Raises:
        ValueError: nothing that is known.

    Example:

    >>> save_albert(build_albert("tiny"), "my-albert")
    >>> describe("my-albert")["parameters"]
    15352
    """
    path = Path(path)
    if (path / MANIFEST).is_file():
        return _records(path)
    if list(path.glob("**/saved_model.pb")):
        return _export(path)
    if (path / SETTINGS).is_file() and not (path / "model").exists():
        return _run(path)
    if (path / "config.json").is_file() or (path / "model" / "config.json").is_file():
        return _checkpoint(find_checkpoint(path))
    if path.is_file() or (path / MODEL_FILE).is_file():
        return _vocabulary(Tokenizer.load(path))
    raise ValueError(
        "inspect knows vocabularies, records, runs, checkpoints and exports. Received: "
        f"{path}, which {'is none of them' if path.exists() else 'does not exist'}."
    )


def pieces(path: str | Path, text: str) -> list[tuple[str, int, int, int]]:
    """(piece, id, start, end) of `text` with the vocabulary at `path`, in characters of it."""
    path = Path(path)
    if path.is_dir() and not (path / MODEL_FILE).is_file():
        path = find_checkpoint(path)
    tokenizer = Tokenizer.load(path)
    ids, offsets = tokenizer.encode_with_offsets(text)
    return [(tokenizer.piece(i), i, *offset) for i, offset in zip(ids, offsets, strict=True)]


def _records(path):
    manifest = json.loads((path / MANIFEST).read_text())
    return {
        "kind": "records",
        **manifest["settings"],
        **manifest["counts"],
        **{f"dropped: {reason}": count for reason, count in manifest["dropped"].items()},
        "shards": len(manifest["shards"]),
        "vocabulary": manifest["vocabulary"]["sha256"][:12],
    }


def _export(path):
    found = {"kind": "export"}
    for metadata in sorted(path.glob("**/assets.extra/metadata.json")):
        fields = json.loads(metadata.read_text(encoding="utf-8"))
        found[f"version {metadata.parents[1].name}"] = (
            f"{len(fields['labels'])} labels ({', '.join(fields['labels'][:8])}), at most "
            f"{fields['max_length']} pieces, vocabulary {fields['vocabulary_sha256'][:12]}"
        )
    return found


def _run(path):
    settings = json.loads((path / SETTINGS).read_text())
    saved = sorted(int(file.stem.rsplit("-", 1)[1]) for file in (path / STATE).glob("step-*.index"))
    return {
        "kind": "run that has not ended",
        "saved steps": ", ".join(map(str, saved)) or "none",
        "Keras": settings["keras"],
        **settings["settings"]["recipe"],
    }


def _checkpoint(path):
    model, tokenizer = load_albert(path)
    config = config_of(model)
    return {
        "kind": model.name,
        "parameters": model.count_params(),
        "of the encoder, pooler included": sum(
            model.get_layer(name).count_params() for name in ("embeddings", "encoder", "pooler")
        ),
        **config.to_dict(),
        **({f"vocabulary: {k}": v for k, v in _vocabulary(tokenizer).items()} if tokenizer else {}),
    }


def _vocabulary(tokenizer):
    return {
        "kind": "vocabulary",
        "pieces": tokenizer.vocab_size,
        "lowercase": tokenizer.lowercase,
        "keep_accents": tokenizer.keep_accents,
        "sha256": tokenizer.sha256,
    }
