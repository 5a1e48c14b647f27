"""Makes fixtures of `tests/goldens` again and compares them with the stored ones.

    python -m tests.parity.remake huggingface_shapes keras_hub_tiny

The scripts are copied to a temporary folder, because each writes beside itself. The libraries may
be newer than those that made what is stored.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from safetensors.numpy import load_file

GOLDENS = Path(__file__).parents[1] / "goldens"
TOLERANCE = 1e-6


def arrays_of(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file, or None for one of another kind."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file)
    if path.suffix == ".npy":
        return {path.name: np.load(path)}
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix == ".h5":
        found = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item: (
                    found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
                )
            )
        return found
    return None


def difference(stored: Path, made: Path) -> float:
    """The largest between the arrays of two files, in parts of an array's largest value or of 1."""
    theirs, ours = arrays_of(stored), arrays_of(made)
    shapes = [{name: (a.shape, a.dtype) for name, a in x.items()} for x in (theirs, ours)]
    if shapes[0] != shapes[1]:
        raise SystemExit(f"{made.name} of {made.parent.name} has other arrays than the stored one.")
    return max(
        float(np.abs(ours[name] - array).max()) / max(1, float(np.abs(array).max()))
        for name, array in theirs.items()
    )


def array_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if arrays_of(path) is not None}


def main(names: list[str]) -> None:
    far = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            script = shutil.copy(GOLDENS / f"make_{name}.py", temporary)
            subprocess.run([sys.executable, script], check=True)
        for folder in sorted(path for path in Path(temporary).iterdir() if path.is_dir()):
            stored = GOLDENS / folder.name
            made = {path.relative_to(folder) for path in array_files(folder)}
            if made != {path.relative_to(stored) for path in array_files(stored)} or not made:
                raise SystemExit(f"{folder.name} has other files than the stored one.")
            for path in sorted(made):
                largest = difference(stored / path, folder / path)
                print(f"{largest:.1e} {folder.name}/{path}")
                if not largest <= TOLERANCE:
                    far.append(f"{folder.name}/{path}")
    if far:
        raise SystemExit(f"Further than {TOLERANCE} from what is stored: {', '.join(far)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
