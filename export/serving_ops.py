"""Which TensorFlow Serving knows the ops of a graph, and what no server would run."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert_keras.json_file import read_json

# Python cannot follow a graph into another process.
_PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
# A server looks past attributes that it does not know, which is well with this one: a variable's
# name for people. (TensorFlow 2.12.0's library did so with an export of 2.21.)
_ONLY_FOR_PEOPLE = {"debug_name"}
# Every server has a CPU, and TensorFlow itself puts the ops that save and restore there.
_EVERYWHERE = re.compile(r"(/job:localhost/replica:0/task:0)?(/device:CPU:(0|\*))?")


@functools.cache
def _known() -> dict[str, Any]:
    """The file that make_serving_ops.py has made."""
    return read_json(Path(__file__).with_name("serving_ops.json"))


def serving_versions() -> list[str]:
    """The versions of TensorFlow Serving whose ops are known, the oldest first."""
    return list(_known()["tensorflow"])


def read_saved_model(folder: str | Path):
    """`saved_model.pb`, the protocol buffer.

    Raises:
        RuntimeError: it is damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        return saved_model_pb2.SavedModel.FromString(Path(folder, "saved_model.pb").read_bytes())
    except DecodeError as error:
        raise RuntimeError(f"graph: saved_model.pb is damaged: {error}") from error


def graph_problems(saved_model) -> list[str]:
    """Why a TensorFlow Serving, of any version from 2.12 on, would not load or not run a graph.

    Args:
        saved_model: of `read_saved_model`.

    Returns:
        A sentence for each problem; [] for a graph that fits all servers.

    Example:

    >>> graph_problems(read_saved_model("served/mail/1"))
    []
    """
    problems = set()
    for name, attributes, device in _nodes(saved_model):
        # A server turns XLA off on CPUs, and such a function then fails when it is called.
        if "_XlaMustCompile" in attributes and attributes["_XlaMustCompile"].b:
            problems.add("graph: a function must be compiled with XLA (jit_compile=True)")
        if not _EVERYWHERE.fullmatch(device):
            problems.add(f"graph: {name} is pinned to the device {device}")
        if name in _PYTHON_OPS:
            problems.add(f"graph: {name} calls Python, which TensorFlow Serving does not have")
        elif lacking := _lacking(name):
            problems.add(f"graph: TensorFlow Serving {_spans(lacking)} has no op {name}")
        else:
            for attribute in attributes:
                if lacking := _lacking_attribute(name, attribute):
                    problems.add(
                        f"graph: {name} of TensorFlow Serving {_spans(lacking)} has no "
                        f"{attribute}, and would do something else"
                    )
    return sorted(problems)


def ops_in(saved_model) -> set[str]:
    """The names of all ops of a graph and its functions; the functions' own names are not ops."""
    return {name for name, _, _ in _nodes(saved_model) if name}


def _nodes(saved_model) -> Iterator[tuple[str, Any, str]]:
    """Op, attributes and device of each node; a function has attributes as well, and "" as op."""
    for meta_graph in saved_model.meta_graphs:
        library = meta_graph.graph_def.library
        functions = {function.signature.name for function in library.function}
        for function in library.function:
            yield "", function.attr, ""
        for nodes in (meta_graph.graph_def.node, *(f.node_def for f in library.function)):
            for node in nodes:
                yield "" if node.op in functions else node.op, node.attr, node.device


def _lacking(op):
    known = _known()
    if not op or op in _known_by_all():
        return []
    having = known["ops_of_some"].get(op, [])
    return [version for version in serving_versions() if version not in having]


@functools.cache
def _known_by_all():
    return frozenset(_known()["ops_of_all"])


def _lacking_attribute(op, attribute):
    having = _known()["attributes_of_some"].get(op, {}).get(attribute)
    if having is None or attribute in _ONLY_FOR_PEOPLE:
        return []
    return [version for version in serving_versions() if version not in having]


def _spans(versions: list[str]) -> str:
    """The versions in words: those that follow one another as their first and their last.

    >>> _spans(["2.12", "2.13", "2.14", "2.21"])
    '2.12 to 2.14, 2.21'
    """
    every, spans = serving_versions(), []
    for version in versions:
        if spans and every.index(spans[-1][-1]) + 1 == every.index(version):
            spans[-1].append(version)
        else:
            spans.append([version])
    return ", ".join(span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans)
