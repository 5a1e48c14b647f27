"""The folder of an exported model, as TensorFlow Serving reads it: numbered versions in it."""

from itertools import pairwise
from pathlib import Path

SAVED_MODEL = "saved_model.pb"
SIGNATURE = "serving_default"  # what answers where none is named
LARGEST_VERSION = 2**63 - 1  # a signed number of 64 bits in TensorFlow Serving's protocol


def versions_in(folder: str | Path) -> list[Path]:
    """The SavedModels of a folder, oldest first.

    A version is a sub-folder whose whole name is a number of 64 bits: `1old/`, a partial export and
    any other folder are looked past, as TensorFlow Serving does.

    Args:
        folder: of the versions, or a SavedModel itself, which is then the only one.

    Raises:
        ValueError: there is none, or two have the same number.

    Example:
        >>> versions_in("served/mail")  # holds 9/, 10/ and 10old/
        [PosixPath('served/mail/9'), PosixPath('served/mail/10')]
    """
    folder = Path(folder)
    if (folder / SAVED_MODEL).is_file():
        return [folder]
    versions = [path.parent for path in folder.glob(f"*/{SAVED_MODEL}")]
    # isdecimal() is true of other scripts' digits too, which no server reads.
    numbered = [
        path
        for path in versions
        if path.name.isascii() and path.name.isdecimal() and int(path.name) <= LARGEST_VERSION
    ]
    if not numbered:
        raise ValueError(
            f"An export is a folder with {SAVED_MODEL}, or with numbered versions of it. Received: "
            f"{folder}. Make one with `albert-keras export`."
        )
    numbered.sort(key=lambda path: int(path.name))
    for first, second in pairwise(numbered):
        if int(first.name) == int(second.name):
            raise ValueError(
                f"Each version has another number. Received: {first.name}/ and {second.name}/ in "
                f"{folder}. Rename one of them."
            )
    return numbered
