"""How types are shown in the reference: by the names they have in the source."""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes

GENERATOR = "~numpy.random._generator.Generator"
ARRAYS = (
    "~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~typing.Any]]",
    "numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]",
    "ndarray[tuple[Any, ...], dtype[Any]]",
)
ALIASES = {
    **dict.fromkeys(ARRAYS, "Array"),
    f"{GENERATOR} | ~collections.abc.Sequence[{GENERATOR}]": "Rng",
    "Array | ~superarm.arrays.types.Product": "Features",
    "Array | superarm.arrays.types.Product": "Features",
    "Array | Product": "Features",
    "superarm.oracles.brute_force._BruteForce": "superarm.contracts.Oracle",
}
QUALIFIED = re.compile(r"(?<![~.\w])((?:\w+\.)+[A-Z]\w*)")
"""A class with its module, which "~" lets Sphinx show without it."""
SAY_NOTHING = ("Any", "~typing.Any", "None")
ORACLE = {
    "L": "int | None",
    "K": "int | None",
    "gap": "float | None",
    "items": "list | Array | None",
    "sense": "int",
}
"""What the attributes of oracles are: in the source some are of any type, so that subclasses may
have attributes or properties."""


def shorten_types(app: Any, domain: str, kind: str, content: Any) -> None:
    """Types by the names they have in the source, before they are written into descriptions."""
    for types in app.env.current_document.autodoc_annotations.values():
        for parameter, text in types.items():
            types[parameter] = shortened(text)


def tidy(app: Any, domain: str, kind: str, content: Any) -> None:
    """Leave out types that say nothing, and values that an attribute has only before it is set."""
    for field in list(content.findall(nodes.field)):
        name, body = field.children
        kind_of_field = name.astext().split()[0]
        if kind_of_field not in ("type", "vartype", "rtype"):
            continue
        made = kind == "class" and kind_of_field == "rtype"  # what a class makes is that class
        if made or body.astext() in SAY_NOTHING:
            field.parent.remove(field)
        else:
            _write(body, QUALIFIED.sub(r"~\1", shortened(body.astext())))
    for signature in content.parent.findall(addnodes.desc_signature):
        if signature.parent is content.parent:
            for part in list(signature.findall(addnodes.desc_annotation)):
                _tidy_annotation(part, signature)


def shortened(text: str) -> str:
    """A type by the name it has in the source."""
    for long, short in ALIASES.items():
        text = text.replace(long, short)
    return text


def _tidy_annotation(part: Any, signature: Any) -> None:
    """The type or the value that stands behind the name of an attribute."""
    name = signature["fullname"].rpartition(".")[2]
    text = _text(part)
    if text == ": Any" and name in ORACLE:
        _write(part, f": {ORACLE[name]}")
    elif text == ": Any" or (text == " = None" and name in ORACLE):
        signature.remove(part)
    elif shortened(text) != text:
        _write(part, shortened(text))


def _text(part: Any) -> str:
    """What is written there, once: links hold their words for when they lead somewhere too."""
    found = ""
    for leaf in part.findall(nodes.Text):
        if getattr(leaf.parent, "attributes", {}).get("condition") != "resolved":
            found += leaf.astext()
    return found


def _write(node: Any, text: str) -> None:
    node.children = []
    node += nodes.Text(text)
