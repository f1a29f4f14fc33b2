"""The help of every command, as a part of the site."""

import argparse
import os
from pathlib import Path

from superarm.cli import _parser


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below a parser, and those below them, by their full names."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                found[command.prog] = command
                found |= commands_of(command)
    return found


def write(path: Path) -> None:
    """Write a section per command, with its help as it is printed 100 characters wide."""
    os.environ["COLUMNS"] = "100"
    parser = _parser()
    sections = [f"```text\n{parser.format_help()}```\n"]
    for name, command in commands_of(parser).items():
        sections.append(f"## {name}\n\n```text\n{command.format_help()}```\n")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(sections), encoding="utf-8")
