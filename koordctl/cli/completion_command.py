"""Command `koordctl completion`: print the script of a shell."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Final

import click
from click import shell_completion

from koordctl.cli.answer import FINE

_SHELLS: Final = ("bash", "zsh", "fish")
PARAMETERS: Final = (click.Argument(["shell"], type=click.Choice(_SHELLS), help="shell to complete in"),)


def run(options: Namespace) -> int:
    """Print the script; return the exit code."""
    completion = shell_completion.get_completion_class(options.shell)
    assert completion is not None
    root = click.get_current_context().find_root().command
    sys.stdout.write(completion(root, {}, "koordctl", "_KOORDCTL_COMPLETE").source())
    return FINE
