"""The site of the documentation; `make docs` builds it.

Its source is the whole checkout, so that the README and the guides link to each other by the same
paths here and on GitHub.
"""

import os
import re
from itertools import pairwise

# As the command line does. Autodoc imports the library.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from sphinx.util import inspect  # noqa: E402

import albert_keras  # noqa: E402

project = "albert_keras"
version = release = albert_keras.__version__
copyright = "the albert_keras authors, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGES.md", "CONTRIBUTING.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "demo", "runs", "albert_keras", "export", "tests"]
# Each table on its own; the page of its experiment has them all.
exclude_patterns += ["docs/ablations/*/table*.md", "docs/ablations/*/groups.md"]
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

_HEADING = re.compile(r"\S+ \S+ \S+.*:$")  # of three words or more; shorter ones are napoleon's
_ITEM = re.compile(r" {4}(\w+(?:, \w+)*): (.*)")


def _own_markup(app, what, name, obj, options, lines):
    """Says in reStructuredText what our docstrings say with less: what models take and give, as
    lists; indented text behind an empty line, as it stands; examples that are not indented."""
    made, within = [], None
    for line, following in pairwise([*lines, ""]):
        if line and not line.startswith(" "):
            within = "section" if following.startswith(" ") else None
            if line == "Example:" and not following:
                line = ".. rubric:: Example"
            elif _HEADING.match(line) and _ITEM.match(following):
                line, within = f"{line}\n", "list"
        elif line and within == "list":
            item = _ITEM.match(line)
            line = f"- **{item[1]}**: {item[2]}" if item else f"  {line.strip()}"
        elif line and within is None:
            made += [".. code-block:: text", ""]
            within = "text"
        made.append(line)
    lines[:] = "\n".join(made).split("\n")


def _own_signature(app, what, name, obj, options, signature, returns):
    """Of a Keras layer or optimizer the arguments of its `__init__`; `__new__` takes anything."""
    if what == "class" and signature == "(*args, **kwargs)":
        own = inspect.signature(obj.__init__, bound_method=True)
        return inspect.stringify_signature(own, show_annotation=False), returns


def setup(app):
    app.connect("autodoc-process-signature", _own_signature)
    app.connect("autodoc-process-docstring", _own_markup, priority=400)  # before napoleon
