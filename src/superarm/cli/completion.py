"""Completion of commands and options by TAB, in bash and zsh: a script made from a parser, so that
nothing of superarm runs when the key is pressed.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

SCRIPT = """\
# completion of superarm for bash and zsh: eval "$(superarm completion)"
if [ -n "${ZSH_VERSION-}" ]; then
    autoload -Uz compinit bashcompinit
    compinit
    bashcompinit
fi
_superarm() {
    local current="${COMP_WORDS[COMP_CWORD]}"
    local previous="${COMP_WORDS[COMP_CWORD-1]}"
    local command="superarm"
    local word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$command $word" in
            @commands@) command="$command $word" ;;
        esac
    done
    case "$command $previous" in
@values@
    esac
    case "$command" in
@words@
    esac
}
complete -o default -F _superarm superarm
"""


class Known(NamedTuple):
    """What may follow a command."""

    command: str  # such as "superarm log verify"
    words: list[str]  # options, choices and commands below
    values: dict[str, list[str]]  # choices by option; empty for a number, a text or a file


def script(parser: argparse.ArgumentParser) -> str:
    """The script for a parser and the commands below it.

    >>> import argparse
    >>> from superarm.cli.completion import script
    >>> parser = argparse.ArgumentParser(prog="superarm")
    >>> _ = parser.add_argument("--color", choices=["red", "blue"])
    >>> "red blue" in script(parser)
    True
    """
    found = list(_known(parser, "superarm"))
    below = [f'"{known.command}"' for known in found[1:]] or ['""']
    values = [
        _reply(f"{known.command} {option}", choices, "return ")
        for known in found
        for option, choices in known.values.items()
    ]
    words = [_reply(known.command, known.words) for known in found]
    text = SCRIPT.replace("@commands@", " | ".join(below))
    text = text.replace("@values@", "\n".join(values))
    return text.replace("@words@", "\n".join(words))


def _reply(case: str, words: list[str], after: str = "") -> str:
    """The branch that offers these words; without any, bash offers names of files."""
    offered = f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current")); ' if words else ""
    return f'        "{case}") {offered}{after};;'


def _known(parser: argparse.ArgumentParser, command: str) -> Iterator[Known]:
    """What may follow a command, and the commands below it."""
    here = Known(command, [], {})
    below = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            here.words.extend(action.choices)
            below += [(f"{command} {name}", sub) for name, sub in action.choices.items()]
            continue
        choices = [str(choice) for choice in action.choices or ()]
        here.words.extend(action.option_strings or choices)
        if action.nargs != 0:
            here.values.update(dict.fromkeys(action.option_strings, choices))
    yield here
    for name, sub in below:
        yield from _known(sub, name)
