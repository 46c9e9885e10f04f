"""The options of a command line, without running its command."""

from argparse import Namespace

import click

from koordctl import commands


def parsed(words):
    """Return the options that the command of the words would run with. Raises click.UsageError."""
    context = commands.ROOT.make_context("koordctl", list(words))
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
    return Namespace(**context.params)
