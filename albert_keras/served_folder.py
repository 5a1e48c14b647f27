"""The folder of an exported model, as TensorFlow Serving reads it: numbered versions in it."""

from pathlib import Path

SAVED_MODEL = "saved_model.pb"


def versions_in(folder: str | Path) -> list[Path]:
    """The SavedModels of a folder, oldest first.

    A version is a sub-folder whose whole name is a number: `1old/`, a partial export and any other
    folder are looked past, as TensorFlow Serving does.

    Args:
        folder: of the versions, or a SavedModel itself, which is then the only one.

    Raises:
        ValueError: there is none.

    Example:
        >>> versions_in("served/mail")  # holds 9/, 10/ and 10old/
        [PosixPath('served/mail/9'), PosixPath('served/mail/10')]
    """
    folder = Path(folder)
    if (folder / SAVED_MODEL).is_file():
        return [folder]
    versions = [path.parent for path in folder.glob(f"*/{SAVED_MODEL}")]
    # isdecimal() is true of other scripts' digits too, which no server reads.
    numbered = [path for path in versions if path.name.isascii() and path.name.isdecimal()]
    if not numbered:
        raise ValueError(
            f"An export is a folder with {SAVED_MODEL}, or with numbered versions of it. Received: "
            f"{folder}. Make one with `albert-keras export`."
        )
    return sorted(numbered, key=lambda path: int(path.name))
