"""The documentation site: `make docs`. It needs no network, neither to be built nor to be read."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

from superarm import __version__

sys.path.insert(0, str(Path(__file__).parent))
import commands
import signatures
from guides import guides_for
from returned import returned

project = "superarm"
author = "the superarm authors"
release = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_templates", "api/commands.md"]
html_theme = "furo"
html_title = f"superarm {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
templates_path = ["_templates"]
default_role = "literal"  # docstrings set code in single backticks
copybutton_exclude = ".linenos, .gp, .go"

autosummary_generate = True
autosummary_filename_map = {"superarm.offline.replay": "superarm.offline.replay-function"}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_use_ivar = True
napoleon_use_rtype = False

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_output_stderr = "remove"  # such as the note that kernels are compiled

INSIDE = {
    *("snapshot", "restore", "side", "matrix", "joined_names", "ones"),
    *("solve", "solve_row", "solve_tensors", "solve_on_host", "of_parts", "search"),
    *("arguments", "candidates", "checks_weights", "exchanges", "ids", "merged"),
    *("of_user", "allowed", "solve_by_parts", "solves_by_parts", "inner", "by_position"),
    *("model", "content", "places", "part", "of_file", "of_content"),
}
"""Public to other rooms of the library, and of no use to a reader of the reference."""


def _escape_batches(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """The batch shape *B and files *.parquet are no emphasis, and |x| is no substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = line.replace("*B", "\\*B").replace("*.", "\\*.").replace("|", "\\|")


def _say_what_is_returned(
    app: object, what: str, name: str, obj: Any, options: object, lines: list[str]
) -> None:
    """Below a method that fulfils a contract and says no more, what the contract says."""
    docstring = "\n".join(lines)
    method = name.rsplit(".", 1)[-1]
    returns = getattr(obj, "__annotations__", {}).get("return", "something")
    if what == "method" and returns not in (None, "None") and not returned("", docstring):
        lines.extend(["", *returned(method, docstring).splitlines(), ""])


def _link_guides(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Below a class or function, the guides that show it in use."""
    pages = guides_for(name) if what in ("class", "function", "exception") else []
    if pages:
        links = ", ".join(f":doc:`/{page}`" for page in pages)
        lines.extend(["", f".. seealso:: {links}", ""])


def _leave_out(
    app: object, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out what is for other rooms, and fields of records, which their docstrings name."""
    is_field = type(obj).__name__ == "_tuplegetter" or inspect.ismemberdescriptor(obj)
    return True if is_field or name in INSIDE else None


FUNCTION = re.compile(r"<(?:built-in )?function (\w+)>")
"""A function that is the default of an argument."""


def _plain_signature(
    app: object, what: str, name: str, obj: Any, options: object, args: str | None, returns: str
) -> tuple[str, str | None] | None:
    """Signatures as a caller needs them: oracles by their `__init__`, as their `__new__` only takes
    notes; contracts without one, as nobody calls them; functions by their names.
    """
    if args is None:
        return None
    if what == "class" and args.startswith("(*given"):
        signature = inspect.signature(obj)
        plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
        args = str(inspect.Signature(plain))
    if what == "class" and args in ("(*args, **kwargs)", "(*given, **named)"):
        return "", None
    return FUNCTION.sub(r"\1", args), returns


WITH_UNIT = re.compile(r"(?<=\d) (?=(%|[mnµ]?s|[kMG]i?B)(\W|$))|(?<=[\d%]) (?=±)|(?<=±) ")
"""The spaces between a number and its unit or error."""


def _keep_units(app: Any, doctree: nodes.document) -> None:
    """Let no line break between a number and its unit, or its error."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.math)):
            kept = WITH_UNIT.sub("\u00a0", text)
            if kept != text:
                text.parent.replace(text, nodes.Text(kept))


def _write_commands(app: Any) -> None:
    """The help of every command, for the page on the command line."""
    commands.write(Path(app.srcdir) / "api" / "commands.md")


def _formula(self: Any, node: nodes.math) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _displayed_formula(self: Any, node: nodes.math_block) -> None:
    formula = convert(node.astext(), display="block")
    self.body.append(f'<div class="formula">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Called by Sphinx. Formulas become MathML, which browsers draw by themselves: no script, no
    fonts, no LaTeX.
    """
    app.add_html_math_renderer("mathml", (_formula, None), (_displayed_formula, None))
    app.connect("builder-inited", _write_commands)
    app.connect("doctree-read", _keep_units)
    app.connect("autodoc-process-docstring", _say_what_is_returned, priority=300)  # as written
    app.connect("autodoc-process-docstring", _escape_batches)
    app.connect("autodoc-process-docstring", _link_guides)
    app.connect("autodoc-process-signature", _plain_signature)
    app.connect("autodoc-skip-member", _leave_out)
    app.connect("object-description-transform", signatures.shorten_types, priority=400)
    app.connect("object-description-transform", signatures.tidy, priority=600)
