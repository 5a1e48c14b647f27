"""fill and take: a model's variables from a file's tensors and back, strictly, in any format."""

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.checkpoints.names import Tensor


class Fit(NamedTuple):
    """What did not fit, and was allowed not to: names and shapes."""

    missing: dict[str, tuple[int, ...]]
    unused: dict[str, tuple[int, ...]]
    state: int = 0
    """How many tensors of the training's state (optimizer slots, steps) were left out besides."""


def fill(
    tensors: Sequence[Tensor],
    found: Mapping[str, tuple[int, ...]],
    get_tensor: Callable[[str], np.ndarray],
    where: str,
    *,
    duplicates: Mapping[str, str] | None = None,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
) -> Fit:
    """Fills every variable, or raises with all that does not fit.

    Nothing is assigned before names, shapes and finiteness are known to be right.

    Args:
        tensors: the model's, by their names in the file.
        found: names and shapes in the file.
        get_tensor: gives the array of a name.
        where: the file, for error messages.
        duplicates: `{name: of}`, tensors that a file may repeat and must then equal.
        allow_missing: patterns (as of a shell) of names that the file may lack; those variables
            keep their values.
        allow_unused: patterns of names in the file that the model has no place for.

    Returns:
        What was missing, where variables kept their values, and what was left unused.

    Raises:
        ValueError: a tensor is missing, unexpected, of another shape or not finite, copies of a
            shared weight differ; all of them are listed.
    """
    duplicates = {name: of for name, of in (duplicates or {}).items() if name in found}
    expected = {tensor.name: tensor.shape for tensor in tensors}
    expected |= {name: expected[of] for name, of in duplicates.items() if of in expected}
    missing = [name for name in expected if name not in found]
    unused = [name for name in found if name not in expected]
    problems = [
        f"missing: {name} {expected[name]}{_hint(name, unused)}"
        for name in unmatched(missing, allow_missing)
    ]
    problems += [
        f"unexpected: {name} {found[name]}{_hint(name, missing)}"
        for name in unmatched(unused, allow_unused)
    ]
    advice = (
        "\nMissing weights are drawn anew only where `allow_missing` has a pattern for them, "
        "unexpected tensors are left out only where `allow_unused` has one; patterns are those of "
        'a shell, such as "*pooler*".'
        if problems
        else ""
    )
    problems += [
        f"of another shape: {name} {found[name]}, the model has {shape}"
        for name, shape in expected.items()
        if found.get(name, shape) != shape
    ]
    if not problems:
        there = [tensor for tensor in tensors if tensor.name in found]
        values, problems = _values(there, get_tensor)
        problems += [
            f"must be equal, they are tied: {name}, {of}"
            for name, of in duplicates.items()
            if of in found and not np.array_equal(get_tensor(name), get_tensor(of))
        ]
    if problems:
        raise ValueError(
            f"The tensors of {where} must be exactly those of the model that its configuration "
            "describes. Received:\n  " + "\n  ".join(problems) + advice
        )
    for variable, array in values.values():
        variable.assign(array)
    return Fit({name: expected[name] for name in missing}, {name: found[name] for name in unused})


def _values(tensors, get_tensor):
    """{id of a variable: (variable, array)}, and what is wrong with them."""
    values, names, problems = {}, {}, []
    for tensor in tensors:
        array = get_tensor(tensor.name)
        if not tf.as_dtype(array.dtype).is_floating:
            problems.append(f"no floating-point numbers: {tensor.name}, {array.dtype}")
            continue
        with np.errstate(over="ignore"):  # it is an infinity then, and said below
            array = array.astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            problems.append(f"NaN or infinite: {tensor.name}")
        array = tensor.layout.to_model(array)
        variable = id(tensor.variable)
        first = names.setdefault(variable, tensor.name)
        if first == tensor.name:
            values[variable] = tensor.variable, array
        elif not np.array_equal(array, values[variable][1], equal_nan=True):
            problems.append(
                f"copies that differ, but the model shares them: {first}, {tensor.name}"
            )
    return values, problems


def take(model: tf.keras.Model, tensors: Sequence[Tensor]) -> dict[str, np.ndarray]:
    """The arrays of a model's file by name, in their layout there; nothing may be lost.

    Args:
        model: an encoder, or one built around it.
        tensors: the model's, by their names in the file.

    Raises:
        ValueError: a weight has no name in the format, or is NaN or infinite.
    """
    named = {id(tensor.variable) for tensor in tensors}
    nameless = [weight.name for weight in model.weights if id(weight) not in named]
    if nameless:
        raise ValueError(
            "A checkpoint holds an encoder, with or without a head of this library. "
            f"Received: a model with further weights, {', '.join(nameless)}. Save the part that "
            "build_albert, build_pretrainer or the builder of a task's model made."
        )
    # Writers write the memory as it lies, so a transposed view would be written wrong.
    arrays = {
        tensor.name: np.ascontiguousarray(tensor.layout.to_file(tensor.variable.numpy()))
        for tensor in tensors
    }
    broken = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if broken:
        raise ValueError(
            f"Weights must be finite numbers to be saved. Received: NaN or infinity in "
            f"{', '.join(broken)}. The training went wrong before this point."
        )
    return arrays


def unmatched(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that fit none of the patterns, which are those of a shell.

    >>> unmatched(["cls/predictions/output_bias", "bert/pooler/dense/bias"], ["cls/*"])
    ['bert/pooler/dense/bias']
    """
    return [name for name in names if not any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def _hint(name, others):
    near = difflib.get_close_matches(name, others, n=1, cutoff=0.8)
    return f" (the nearest is {near[0]})" if near else ""
