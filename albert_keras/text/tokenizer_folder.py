"""A folder that holds a vocabulary: which file it is, and what is said about case and accents."""

from collections.abc import Mapping
from pathlib import Path

CONFIG_FILE = "tokenizer_config.json"
# By these names a folder holds a vocabulary: SentencePiece's and WordPiece's.
VOCABULARY_FILES = ("spiece.model", "vocab.txt")


def find_vocabulary(folder: Path) -> Path | None:
    """The vocabulary in a folder; None when there is none.

    Raises:
        ValueError: there are two.
    """
    found = [folder / name for name in VOCABULARY_FILES if (folder / name).exists()]
    if len(found) > 1:
        raise ValueError(
            f"A folder holds one vocabulary. Received: {folder} with "
            f"{' and '.join(path.name for path in found)}. Name the file, or remove the other."
        )
    return found[0] if found else None


def agreed_settings(
    path: Path,
    asked: Mapping[str, bool | None],
    config: Mapping[str, bool | None],
    baked: Mapping[str, bool],
) -> dict[str, bool]:
    """`lowercase` and `keep_accents` as far as anyone says them; nobody may contradict another.

    Args:
        path: what errors call the vocabulary.
        asked: the caller's arguments.
        config: what tokenizer_config.json says.
        baked: what the vocabulary itself says.

    Raises:
        ValueError: a setting is no bool, or two do not agree.
    """
    for key, value in config.items():
        if value is not None and not isinstance(value, bool):
            raise ValueError(
                f"{CONFIG_FILE} says of case and accents true or false. Received: "
                f"{path.parent / CONFIG_FILE} with {key}={value!r}."
            )
    settings = {}
    for source in (asked, config, baked):
        settings.update({k: v for k, v in source.items() if v is not None})
    for source, values in (("the arguments say", asked), (f"{CONFIG_FILE} says", config)):
        for key, value in values.items():
            if value is not None and value != settings[key]:
                said = "the model is baked with" if key in baked else f"{CONFIG_FILE} says"
                raise ValueError(
                    f"A vocabulary is used as it was trained. Received: {path}, for which "
                    f"{source} {key}={value} and {said} {key}={settings[key]}. "
                    "Leave the setting out."
                )
    return settings
