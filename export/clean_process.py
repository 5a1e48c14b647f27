"""The processes that know neither Keras nor this library, and answer from an export.

This file is started by its path, as TensorFlow Serving has nothing of the library's. One process
has TensorFlow, the kernels that tokenize, and NumPy; it answers through two loaders. Both are
needed: `tf.saved_model.load` is content with variables that the session loader, whose steps are
the server's, cannot find. The other process has no TensorFlow but its C library.
"""

import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np

BARRED = ("keras", "tf_keras", "albert_keras")

Arrays = dict[str, np.ndarray]
Answer = Callable[[str, Arrays], Arrays]  # of a signature and its inputs


def _load_tf2(folder: str, kernels: Sequence[Path]) -> Answer:
    tf = _tensorflow(kernels)
    loaded = tf.saved_model.load(folder)

    def answer(signature, inputs):
        tensors = {
            # tf.constant takes no array of objects that is empty.
            name: tf.constant(array.tolist(), tf.string, shape=array.shape)
            if array.dtype == object
            else tf.constant(array)
            for name, array in inputs.items()
        }
        outputs = loaded.signatures[signature](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    return answer


def _load_tf1(folder: str, kernels: Sequence[Path]) -> Answer:
    tf = _tensorflow(kernels)
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], folder)

    def answer(signature, inputs):
        signature = loaded.signature_def[signature]
        outputs = {name: info.name for name, info in signature.outputs.items()}
        return session.run(
            outputs, {signature.inputs[name].name: array for name, array in inputs.items()}
        )

    return answer


def _load_c(folder: str, kernels: Sequence[Path]) -> Answer:
    # By its path: as a part of this package it would bring what this process must not have.
    c_loader = runpy.run_path(str(Path(__file__).with_name("c_loader.py")))
    return c_loader["CLoader"](c_loader["CLibrary"](_package("tensorflow"), kernels), folder)


# By the name of a process its loaders, and what must not be imported there.
PROCESSES: Mapping[str, tuple[Mapping[str, Callable[..., Answer]], Sequence[str]]] = {
    "python": ({"tf.saved_model.load": _load_tf2, "TF1 session loader": _load_tf1}, BARRED),
    "c": ({"TF C API": _load_c}, (*BARRED, "tensorflow", "tensorflow_text")),
}


def _tensorflow(kernels):
    import tensorflow as tf

    for path in kernels:
        # Not `import tensorflow_text`: that loads Keras for layers of its own.
        tf.load_op_library(str(path))
    return tf


def _package(name):
    """The folder of an installed package, which is not imported."""
    return Path(PathFinder.find_spec(name).submodule_search_locations[0])


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes named arrays; those of objects hold bytes."""
    # A byte behind each string, because NumPy's own strings end before trailing NULs.
    strings = {
        name: np.array([value + b"." for value in array.ravel()], "S").reshape(array.shape)
        for name, array in arrays.items()
        if array.dtype == object
    }
    np.savez(path, **{**arrays, **strings})


def read_arrays(path: str | Path) -> Arrays:
    """What `write_arrays` wrote."""
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, array in arrays.items():
        if array.dtype.kind == "S":
            arrays[name] = np.array([value[:-1] for value in array.flat], object).reshape(
                array.shape
            )
    return arrays


def main(process: str, folder: str, asked: str, answered: str, *kernels: str) -> None:
    """Answers the questions through the loaders of a process; what fails becomes a problem.

    Args:
        process: of `PROCESSES`.
        folder: of the SavedModel.
        asked: file of arrays, `signatures` and for question 3 its inputs `3/NAME`.
        answered: file to write: `problems`, and the outputs `LOADER/3/NAME`.
        kernels: names of files of tensorflow-text.
    """
    loaders, barred = PROCESSES[process]
    package = _package("tensorflow_text") if kernels else Path()
    paths = [package / "python" / "ops" / name for name in kernels]
    questions = read_arrays(asked)
    signatures = questions.pop("signatures")
    inputs = [{} for _ in signatures]
    for name, array in questions.items():
        number, _, name = name.partition("/")
        inputs[int(number)][name] = array
    for name in barred:
        # An import of it, by anyone, is an ImportError from here on; one before is found below.
        sys.modules.setdefault(name, None)
    problems, results = [], {}
    for loader, load in loaders.items():
        try:
            answer = load(folder, paths)
        except Exception as error:  # any: each is a way in which an export can be broken
            problems.append(f"{loader}: {_said(error)}")
            continue
        for number, signature in enumerate(signatures):
            try:
                outputs = answer(str(signature), inputs[number])
            except Exception as error:
                problems.append(f"{loader}: question {number} of {signature}: {_said(error)}")
                continue
            results |= {f"{loader}/{number}/{name}": array for name, array in outputs.items()}
    present = sorted({name.split(".")[0] for name, module in sys.modules.items() if module})
    if found := [name for name in present if name in barred]:
        problems.append(f"process: {found} was imported, so nothing is proven without it")
    write_arrays(answered, {"problems": np.array(problems, str), **results})


def _said(error):
    return f"{type(error).__name__}: {str(error)[:1000]}"


if __name__ == "__main__":
    main(*sys.argv[1:])
