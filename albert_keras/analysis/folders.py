"""What a folder of ours holds."""

from pathlib import Path
from typing import Any

from albert_keras.checkpoint_folder import CONFIG, find_checkpoint, find_tokenizer
from albert_keras.checkpoints import load_albert, load_config, load_head
from albert_keras.config import AlbertConfig
from albert_keras.data.manifest import MANIFEST, read_manifest
from albert_keras.json_file import check_object, read_json
from albert_keras.model import config_of, encoder_of
from albert_keras.run_folder import MODEL, SCORES, SETTINGS, STATE, run_recipe, run_settings
from albert_keras.served_folder import SAVED_MODEL, versions_in
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.tokenizer_folder import find_vocabulary


def describe(path: str | Path) -> dict[str, Any]:
    """Names and values for whatever is at `path`.

    Args:
        path: a vocabulary, a record set, a run, a checkpoint folder or an export, by its folder; or
            a vocabulary's file.

    Raises:
        ValueError: nothing that is known.

    Example:

    >>> save_albert(build_albert("tiny"), "my-albert")
    >>> describe("my-albert")["parameters"]
    9384
    """
    path = Path(path)
    if (path / MANIFEST).is_file():
        return _records(path)
    if (path / SAVED_MODEL).is_file() or list(path.glob(f"*/{SAVED_MODEL}")):
        return _export(path)
    if (path / SETTINGS).is_file():
        return _run(path)
    if (path / CONFIG).is_file() or (path / MODEL / CONFIG).is_file():
        return _checkpoint(find_checkpoint(path))
    if path.is_file() or find_vocabulary(path):
        return _vocabulary(Tokenizer.load(path))
    raise ValueError(
        "inspect knows vocabularies, records, runs, checkpoints and exports. Received: "
        f"{path}, which {'is none of them' if path.exists() else 'does not exist'}."
    )


def config_in(path: str | Path) -> AlbertConfig | None:
    """The config of the model in a checkpoint folder or a run, also of a pretraining that goes on;
    None where there is none yet, or something else."""
    path = Path(path)
    for folder in (path, path / MODEL):
        if (folder / CONFIG).is_file():
            return load_config(folder)
    if (path / SETTINGS).is_file():
        fields = run_settings(path)["settings"].get("config")
        if fields is not None:
            check_object(fields, f"{path / SETTINGS}: `config`")
            return AlbertConfig.from_dict(fields)
    return None


def pieces(path: str | Path, text: str) -> list[tuple[str, int, int, int]]:
    """(piece, id, start, end) of `text` with the vocabulary at `path`, in characters of it."""
    tokenizer = Tokenizer.load(find_tokenizer(path))
    ids, offsets = tokenizer.encode_with_offsets(text)
    return [(tokenizer.piece(i), i, *offset) for i, offset in zip(ids, offsets, strict=True)]


def _records(path):
    manifest = read_manifest(str(path))
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
    for version in versions_in(path):
        metadata = version / "assets.extra" / "metadata.json"
        if not metadata.is_file():
            found[f"version {version.name}"] = "not written by albert-keras export"
            continue
        fields = read_json(metadata, keys=["labels", "max_length", "vocabulary_sha256"])
        found[f"version {version.name}"] = (
            f"{_listed(fields['labels'], metadata)}, at most {fields['max_length']} pieces, "
            f"vocabulary {str(fields['vocabulary_sha256'])[:12]}"
        )
    return found


def _run(path):
    run = run_settings(path)
    settings, recipe = run["settings"], run_recipe(path)
    saved = sorted(int(file.stem.rsplit("-", 1)[1]) for file in (path / STATE).glob("step-*.index"))
    ended = (path / MODEL).exists()
    found = {
        "kind": "run that has ended" if ended else "run that has not ended",
        "steps done": f"{saved[-1] if saved else 0:,} of {recipe['total_steps']:,}",
        "saved steps": ", ".join(map(str, saved)) or "none",
        "Keras": run["keras"],
        **recipe,
    }
    if "labels" in settings:
        found["labels"] = _listed(settings["labels"], path / SETTINGS)
    if (path / SCORES).is_file():
        for name, score in read_json(path / SCORES).items():
            if isinstance(score, int | float):
                found[f"score: {name}"] = score
    if ended:
        checkpoint = _checkpoint(path / MODEL)
        found |= {"model": checkpoint.pop("kind"), **checkpoint}
    return found


def _listed(labels, where):
    if not isinstance(labels, list):
        raise ValueError(f"{where}: `labels` must be a list. Received: {labels!r}.")
    more = ", ..." if len(labels) > 8 else ""
    return f"{len(labels)} labels ({', '.join(map(str, labels[:8]))}{more})"


def _checkpoint(path):
    model, tokenizer = load_albert(path)
    config = config_of(model)
    return {
        "kind": model.name,
        "parameters": model.count_params(),
        "of the encoder": encoder_of(model).count_params(),
        "longest row of training": load_head(path)["max_length"] or "not known",
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
