"""Command line of the manager: `python -m manager run` in a cluster, and what the chart runs beside it.

`serve-admission` runs the webhook for Mid pods, `uninstall` is a pre-delete hook, and `restore-limits` runs after an
upgrade that ends suppression. Questions of an operator are answered by koordctl.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from apiserver_client import credentials, errors
from component_base import http_endpoint, logs, settings
from manager import program
from manager.cache import kopf_thread
from manager.cli import lowered_limits, uninstall
from manager.cli.admission.settings import ENV_PREFIX as ADMISSION_PREFIX
from manager.cli.admission.settings import AdmissionSettings
from manager.settings import ENV_PREFIX, ManagerSettings

log = logging.getLogger("manager")

_WRONG_SETTINGS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m manager", description="Turn configuration and reports into Mid resources on nodes."
    )
    commands = parser.add_subparsers(dest="command", metavar="{run,serve-admission,restore-limits,uninstall}")
    run = commands.add_parser("run", help="run in a cluster (the default)")
    settings.add_arguments(run, ManagerSettings, ENV_PREFIX)
    serve = commands.add_parser("serve-admission", help="serve the admission webhook for Mid pods")
    settings.add_arguments(serve, AdmissionSettings, ADMISSION_PREFIX)
    lowered_limits.add_arguments(
        commands.add_parser("restore-limits", help="restore the CPU limits of Mid pods after suppression")
    )
    uninstall.add_arguments(commands.add_parser("uninstall", help="remove what the suite has written"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 2 where the settings are wrong, 1 after any other error."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "run")
    arguments = _parser().parse_args(words)
    if arguments.command == "restore-limits":
        return lowered_limits.main(arguments)
    if arguments.command == "uninstall":
        return uninstall.main(arguments)
    try:
        chosen: ManagerSettings | AdmissionSettings = (
            settings.from_sources(AdmissionSettings, arguments, os.environ, ADMISSION_PREFIX)
            if arguments.command == "serve-admission"
            else settings.from_sources(ManagerSettings, arguments, os.environ, ENV_PREFIX)
        )
    except settings.SettingsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return _WRONG_SETTINGS
    logs.configure(chosen.log_format, chosen.log_level)
    logging.getLogger("kopf").setLevel(logging.ERROR)
    try:
        to = credentials.find(chosen.kubeconfig or None)
        kopf_thread.connection_info(to)  # kopf refuses some that others accept
        if isinstance(chosen, AdmissionSettings):
            from manager.cli.admission import webhook  # noqa: PLC0415  # its libraries cost a leader 10 MiB

            return webhook.AdmissionProgram(chosen, to).run()
        return program.Program(chosen, to).run()
    except (errors.ApiServerError, http_endpoint.CannotListen) as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete
        return 1


if __name__ == "__main__":
    sys.exit(main())
