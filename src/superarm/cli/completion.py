"""Completion of commands and options by TAB, in bash, zsh and fish: a script made from a parser, so
that nothing of superarm runs when the key is pressed.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

BASH = """\
# completion of superarm for bash and zsh: eval "$(superarm completion)"
if [ -n "${ZSH_VERSION-}" ]; then
    if ! typeset -f compdef > /dev/null; then
        autoload -Uz compinit
        compinit
    fi
    autoload -Uz bashcompinit
    bashcompinit
fi
_superarm() {
    local current="${COMP_WORDS[COMP_CWORD]}"
    local previous="${COMP_WORDS[COMP_CWORD-1]}"
    local command="superarm"
    local word found flags  # zsh has words and options of its own
    for word in "${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do
        case "$command $word" in
            @commands@) command="$command $word" ;;
        esac
    done
    case "$command" in
@words@
    esac
    if [[ "$current" == -* ]]; then found="$flags"; fi
    case "$command $previous" in
@values@
    esac
    COMPREPLY=($(compgen -W "$found" -- "$current"))
}
complete -o default -F _superarm superarm
"""
FISH = """\
# completion of superarm for fish: superarm completion fish | source
function __superarm
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l command superarm
    set -l found
    set -l flags
    for word in $before[2..]
        switch "$command $word"
            case @commands@
                set command "$command $word"
        end
    end
    switch "$command"
@words@
    end
    if string match -q -- '-*' "$current"
        set found $flags
    end
    switch "$command $before[-1]"
@values@
    end
    if test -z "$found"
        __fish_complete_path "$current"
    else
        printf '%s\\n' $found
    end
end
complete -c superarm -f -a '(__superarm)'
"""
SHELLS = ("bash", "zsh", "fish")


class Known(NamedTuple):
    """What may follow a command. Where there is nothing, names of files are offered."""

    command: str  # such as "superarm log verify"
    words: list[str]  # commands below and choices; the options, if it takes nothing else
    options: list[str]
    values: dict[str, list[str]]  # choices by option; empty for a number, a text or a file


def script(parser: argparse.ArgumentParser, shell: str = "bash") -> str:
    """The script for a parser and the commands below it; that for bash is for zsh too.

    >>> import argparse
    >>> from superarm.cli.completion import script
    >>> parser = argparse.ArgumentParser(prog="superarm")
    >>> _ = parser.add_argument("--color", choices=["red", "blue"])
    >>> '"superarm --color") found="red blue"' in script(parser)
    True
    """
    found = list(_known(parser, "superarm"))
    below = [f'"{known.command}"' for known in found[1:]] or ['""']
    if shell == "fish":
        text, case, between = FISH, _fish_case, " "
    else:
        text, case, between = BASH, _bash_case, " | "
    words = [case(known.command, found=known.words, flags=known.options) for known in found]
    values = [
        case(f"{known.command} {option}", found=choices)
        for known in found
        for option, choices in known.values.items()
    ]
    text = text.replace("@commands@", between.join(below))
    text = text.replace("@words@", "\n".join(words))
    return text.replace("@values@", "\n".join(values))


def _bash_case(case: str, **words: list[str]) -> str:
    """The branch that sets variables to words."""
    set_ = "; ".join(f'{name}="{" ".join(given)}"' for name, given in words.items())
    return f'        "{case}") {set_} ;;'


def _fish_case(case: str, **words: list[str]) -> str:
    """The branch that sets variables to words."""
    lines = [f'        case "{case}"']
    for name, given in words.items():
        lines.append(f"            set {' '.join([name, *given])}")
    return "\n".join(lines)


def _known(parser: argparse.ArgumentParser, command: str) -> Iterator[Known]:
    """What may follow a command, and the commands below it."""
    here = Known(command, [], [], {})
    below = []
    takes_more = False
    for action in parser._actions:
        choices = [str(choice) for choice in action.choices or ()]
        if isinstance(action, argparse._SubParsersAction):
            below = [(f"{command} {name}", sub) for name, sub in action.choices.items()]
        if not action.option_strings:
            here.words.extend(choices)
            takes_more = True
            continue
        here.options.extend(action.option_strings)
        if action.nargs != 0:
            here.values.update(dict.fromkeys(action.option_strings, choices))
    if not takes_more:
        here.words.extend(here.options)
    yield here
    for name, sub in below:
        yield from _known(sub, name)
