"""Command `koordctl completion`: print the script of a shell."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from koordctl.cli.answer import FINE

_BASH: Final = """\
# source <(koordctl completion bash)
_koordctl() {
    local line directive=0
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :*) directive=${line#:} ;;
            *) COMPREPLY+=("$line") ;;
        esac
    done < <(koordctl __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ $directive == 4 ]]; then compopt +o default; fi
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; fi
}
complete -o default -F _koordctl koordctl
"""
_ZSH: Final = """\
#compdef koordctl
# source <(koordctl completion zsh), after compinit
_koordctl() {
    local line directive=0
    local -a found
    while IFS= read -r line; do
        case $line in
            :*) directive=${line#:} ;;
            *) found+=("$line") ;;
        esac
    done < <(koordctl __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    compadd -a found
    if [[ $directive == 0 ]]; then _files; fi
}
compdef _koordctl koordctl
"""
_FISH: Final = """\
# koordctl completion fish | source
function __koordctl_complete
    set -l words (commandline -opc)
    koordctl __complete $words[2..] (commandline -ct) 2>/dev/null | string match -v -r '^:'
end
complete -c koordctl -a '(__koordctl_complete)'
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="shell to complete in")


def run(options: Namespace) -> int:
    """Print the script; return the exit code."""
    sys.stdout.write(_SCRIPTS[options.shell])
    return FINE
