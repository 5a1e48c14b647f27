"""Reads the docstrings of the standard library and of the installed packages, importing nothing."""

import ast
import importlib.metadata
import os
import re
import sysconfig
import warnings
from pathlib import Path
from typing import NamedTuple

from examples.demo.prose import paragraphs

# Tests, re-exports (`_api`), and copies of other libraries, which would blur the labels.
SKIPPED_FOLDERS = set(
    "test tests testing _api _vendor _vendored externals array_api_compat array_api_extra "
    "__pycache__ site-packages dist-packages".split()
)
SKIPPED_PATHS = ("tensorflow/python/keras/", "albert_keras/", "__editable__")
SKIPPED_FILES = re.compile(r"test_.*|.*_test\.py|conftest\.py")
# The two Kerases are one library: tf_keras is the older of them.
SAME_LIBRARY = {"tf_keras": "keras"}


class Source(NamedTuple):
    """A Python file: the library that owns it, its path below the library's root, where it is."""

    library: str
    path: str
    file: str


class Document(NamedTuple):
    """The prose of one docstring."""

    source: Source
    paragraphs: tuple


def installed_sources():
    """Lists the files of the running interpreter's standard library and installed packages."""
    folders = sysconfig.get_paths()
    owners = {
        package: names[0] for package, names in importlib.metadata.packages_distributions().items()
    }
    sources = sources_below(folders["stdlib"], lambda package: "stdlib")
    for folder in {folders["purelib"], folders["platlib"]}:
        sources += sources_below(folder, lambda package: owners.get(package, package))
    return sorted(set(sources))


def sources_below(root, library_of):
    """Lists the Python files below `root`, without tests and vendored copies.

    Args:
      root: a folder.
      library_of: a function from the name of a top-level package or module to its library.

    Returns:
      A list of `Source`.
    """
    sources = []
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED_FOLDERS]
        for name in files:
            path = Path(folder, name).relative_to(root).as_posix()
            if not name.endswith(".py") or SKIPPED_FILES.fullmatch(name):
                continue
            if path.startswith(SKIPPED_PATHS):
                continue
            package = path.split("/")[0].removesuffix(".py")
            library = SAME_LIBRARY.get(package) or library_of(package)
            sources.append(Source(library.lower(), path, os.path.join(folder, name)))
    return sources


def read_source(source):
    """The prose of every docstring of a file, in the order of the file.

    Args:
      source: a `Source`.

    Returns:
      (list of `Document`, characters of all its docstrings), or None when the file is not valid
      Python for this interpreter (a template, or code for another version).
    """
    code = Path(source.file).read_bytes()
    if b'"""' not in code and b"'''" not in code:
        return [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes in other people's strings
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError):
            return None
    docstrings = list(_docstrings(tree))
    documents = [Document(source, tuple(paragraphs(docstring))) for docstring in docstrings]
    return [document for document in documents if document.paragraphs], sum(map(len, docstrings))


def _docstrings(tree):
    # ast.walk would visit every expression too, and take half of the whole time.
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield docstring
        for field in ("finalbody", "orelse", "handlers", "body"):
            nodes.extend(reversed(getattr(node, field, ())))
