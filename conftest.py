"""Leaves out the modules whose libraries are not installed, as their imports would fail."""

from importlib.util import find_spec

OPTIONAL = {
    "torch": ["arrays/torch.py", "arrays/torch_qr.py", "oracles/gpu.py"],
    "triton": ["arrays/triton.py", "oracles/sweep.py"],
}
collect_ignore = [
    f"src/superarm/{path}"
    for name, paths in OPTIONAL.items()
    if find_spec(name) is None
    for path in paths
]
