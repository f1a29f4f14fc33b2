"""Leaves out the modules whose libraries are not installed, as their imports would fail."""

from importlib.util import find_spec

collect_ignore_glob = [f"src/superarm/{name}_*.py" for name in ("torch", "triton") if find_spec(name) is None]
