"""Command line of the manager: `python -m manager run` in a cluster, and what the chart runs beside it.

`serve-admission` runs the webhook for Mid pods, `uninstall` is a pre-delete hook, and `restore-limits` runs after an
upgrade that ends suppression. Questions of an operator are answered by koordctl.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from apiserver_client import connection, errors, kubeconfig
from component_base import http_endpoint, logs, settings
from manager import program
from manager.cache import kopf_thread
from manager.cli import lowered_limits, uninstall
from manager.cli.admission.settings import ENV_PREFIX as ADMISSION_PREFIX
from manager.cli.admission.settings import AdmissionSettings
from manager.cli.lowered_limits import RestoreSettings
from manager.cli.uninstall import UninstallSettings
from manager.settings import ENV_PREFIX, ManagerSettings

log = logging.getLogger("manager")

_WRONG_SETTINGS = 2
_COMMANDS: dict[str, tuple[type[settings.Settings], str, str]] = {
    "run": (ManagerSettings, ENV_PREFIX, "run in a cluster (the default)"),
    "serve-admission": (AdmissionSettings, ADMISSION_PREFIX, "serve the admission webhook for Mid pods"),
    "restore-limits": (RestoreSettings, "RESTORE_LIMITS", "restore the CPU limits of Mid pods after suppression"),
    "uninstall": (UninstallSettings, "UNINSTALL", "remove what the suite has written"),
}
"""Settings of each command, the prefix of their environment variables, and what it does."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m manager", description="Turn configuration and reports into Mid resources on nodes."
    )
    commands = parser.add_subparsers(dest="command", metavar="{run,serve-admission,restore-limits,uninstall}")
    for name, (model, prefix, text) in _COMMANDS.items():
        settings.add_arguments(commands.add_parser(name, help=text), model, prefix)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 2 where the settings are wrong, 1 after any other error."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "run")
    arguments = _parser().parse_args(words)
    model, prefix, _ = _COMMANDS[arguments.command]
    try:
        chosen: Any = settings.from_sources(model, arguments, os.environ, prefix)
    except settings.SettingsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return _WRONG_SETTINGS
    logs.configure(chosen.log_format, chosen.log_level)
    logging.getLogger("kopf").setLevel(logging.ERROR)
    try:
        to = kubeconfig.find(chosen.kubeconfig or None)
        return _run(chosen, to)
    except errors.NoCredentials as error:
        if isinstance(chosen, RestoreSettings | UninstallSettings):
            sys.stderr.write(f"{error}\n")
            return _WRONG_SETTINGS
        log.error("%s", error)  # noqa: TRY400  # the message is complete
    except (errors.ApiServerError, http_endpoint.CannotListen) as error:
        log.error("%s", error)  # noqa: TRY400
    return 1


def _run(chosen: settings.Settings, to: connection.Connection) -> int:
    if isinstance(chosen, RestoreSettings):
        return asyncio.run(lowered_limits.run(to, chosen))
    if isinstance(chosen, UninstallSettings):
        return asyncio.run(uninstall.uninstall(to, chosen))
    kopf_thread.connection_info(to)  # kopf refuses some that others accept
    if isinstance(chosen, AdmissionSettings):
        from manager.cli.admission import webhook  # noqa: PLC0415  # its libraries cost a leader 10 MiB

        return webhook.AdmissionProgram(chosen, to).run()
    assert isinstance(chosen, ManagerSettings)
    return program.Program(chosen, to).run()


if __name__ == "__main__":
    sys.exit(main())
