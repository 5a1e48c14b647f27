"""The site of the documentation; `make docs` builds it.

Its source is the whole checkout, so that the README and the guides link to each other by the same
paths here and on GitHub.
"""

import os
import re

# As the command line does. Autodoc imports the library.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import albert_keras  # noqa: E402

project = "albert_keras"
version = release = albert_keras.__version__
copyright = "the albert_keras authors, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGES.md", "CONTRIBUTING.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "demo", "runs", "albert_keras", "export", "tests"]
myst_heading_anchors = 4  # by GitHub's names

default_role = "code"  # docstrings have `code` between single back quotes
autodoc_inherit_docstrings = False  # Keras's own have another markup
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_custom_sections = ["Input shape", "Output shape", "Reference"]
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"albert_keras {release}"
html_copy_source = False
html_extra_path = ["index.html"]  # leads to docs/index.html

_INPUTS = re.compile(r"\s*(Inputs|Outputs) of the model\b.*:$")
_ITEM = re.compile(r"\s*(\w+(?:, \w+)*): (.*)")


def _own_sections(app, what, name, obj, options, lines):
    """What napoleon does not know of our docstrings: the dicts that models take and give, as lists,
    and examples that are not indented."""
    indent = None
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if _INPUTS.match(line) and lines[number + 1].startswith(" " * (depth + 1)):
            lines[number], indent = f"{line}\n", depth
        elif indent is not None and line and depth <= indent:
            indent = None
        elif indent is not None and (item := _ITEM.match(line)):
            lines[number] = f"{' ' * indent}- **{item[1]}**: {item[2]}"
        elif indent is not None and line:
            lines[number] = f"{' ' * indent}  {line.strip()}"
        elif line.strip() == "Example:" and not lines[number + 1]:
            lines[number] = f"{' ' * depth}.. rubric:: Example"
    lines[:] = "\n".join(lines).split("\n")


def setup(app):
    app.connect("autodoc-process-docstring", _own_sections, priority=400)  # before napoleon
