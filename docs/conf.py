"""The documentation site: `make docs`."""

from typing import Any

from superarm import __version__

project = "superarm"
author = "the superarm authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"superarm {release}"
default_role = "literal"  # docstrings set code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_type_aliases = {"Array": "Array", "Rng": "Rng"}
myst_heading_anchors = 3


def _escape_batches(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """The batch shape *B is not the beginning of an emphasis, and |x| is no substitution."""
    lines[:] = [line.replace("*B", "\\*B").replace("|", "\\|") for line in lines]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _escape_batches)
