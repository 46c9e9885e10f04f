"""Command `koordctl completion`, the completion by its scripts, and that of `kubectl koord` by kubectl."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Final

import click
from click import shell_completion

from koordctl import commands
from koordctl.cli.answer import FINE

VARIABLE: Final = "_KOORDCTL_COMPLETE"
"""Environment variable by which the script of a shell asks for words."""
_WITH_FILES, _WITHOUT_FILES = 0, 4
"""Directives of kubectl: whether the shell adds names of files."""


PARAMETERS: Final = (
    click.Argument(["shell"], type=click.Choice(("bash", "zsh", "fish")), help="shell to complete in"),
)


@shell_completion.add_completion_class
class BashWords(shell_completion.BashComplete):
    """The completion of click, for `--flag=value` and for names that go on after a `/` too."""

    source_template = shell_completion.BashComplete.source_template.replace(
        "COMPREPLY+=($value)", "COMPREPLY+=($value)\n            [[ $value == */ ]] && compopt -o nospace"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Leave out the `=`, which bash passes as a word of its own."""
        words, partial = super().get_completion_args()
        return [word for word in words if word != "="], partial if partial != "=" else ""


def run(options: Namespace) -> int:
    """Print the script of a shell; return the exit code."""
    completion = shell_completion.get_completion_class(options.shell)
    assert completion is not None
    sys.stdout.write(completion(commands.ROOT, {}, "koordctl", VARIABLE).source())
    return FINE


def kubectl() -> int:
    """Run as `kubectl_complete-koord`: print the words that may follow, one a line, then `:DIRECTIVE`."""
    *words, partial = sys.argv[1:] or [""]
    items = shell_completion.ShellComplete(commands.ROOT, {}, "koordctl", VARIABLE).get_completions(words, partial)
    names = [item.value for item in items if item.type == "plain"]
    sys.stdout.writelines(f"{name}\n" for name in names)
    sys.stdout.write(f":{_WITH_FILES if len(names) < len(items) else _WITHOUT_FILES}\n")
    return FINE
