"""Command line of the manager: `python -m manager run` in a cluster, and commands for operators.

`serve-admission` runs the webhook for Mid pods. `check-config` works anywhere, `explain-config` and `explain-mid`
beside a manager or without one. The chart runs `uninstall` as a pre-delete hook, `restore-limits` after an upgrade that
ends suppression, and `check-install` as `helm test`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from apiserver_client import credentials, errors
from component_base import clock, http_endpoint, logs, settings
from manager import program
from manager.cache import kopf_watches
from manager.cli import check_config, check_install, explain_config, explain_mid, restore_limits, uninstall
from manager.cli.admission.settings import ENV_PREFIX as ADMISSION_PREFIX
from manager.cli.admission.settings import AdmissionSettings
from manager.settings import ENV_PREFIX, ManagerSettings

log = logging.getLogger("manager")

_WRONG_SETTINGS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m manager", description="Turn configuration and reports into Mid resources on nodes."
    )
    verbs = "run,serve-admission,check-config,explain-config,explain-mid,check-install,restore-limits,uninstall"
    commands = parser.add_subparsers(dest="command", metavar=f"{{{verbs}}}")
    run = commands.add_parser("run", help="run in a cluster (the default)")
    settings.add_arguments(run, ManagerSettings, ENV_PREFIX)
    serve = commands.add_parser("serve-admission", help="serve the admission webhook for Mid pods")
    settings.add_arguments(serve, AdmissionSettings, ADMISSION_PREFIX)
    check = commands.add_parser("check-config", help="check a colocation-config document")
    check.add_argument("file", metavar="FILE", help="JSON document or ConfigMap manifest; - is standard input")
    explain_config.add_arguments(
        commands.add_parser("explain-config", help="show the strategy of a node and the layer of each value")
    )
    mid = commands.add_parser("explain-mid", help="explain a node's Mid resources")
    mid.add_argument("--node", required=True, help="name of the node")
    mid.add_argument("--output", choices=("text", "json"), default="text", help="output format (default: text)")
    mid.add_argument("--kubeconfig", help="kubeconfig file; default as of the command run")
    check_install.add_arguments(commands.add_parser("check-install", help="check that the installation works"))
    restore_limits.add_arguments(
        commands.add_parser("restore-limits", help="restore the CPU limits of Mid pods after suppression")
    )
    uninstall.add_arguments(commands.add_parser("uninstall", help="remove what the suite has written"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 2 where the settings are wrong, 1 after any other error."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given.insert(0, "run")
    arguments = _parser().parse_args(given)
    others = {
        "check-config": lambda given: check_config.check(given.file),
        "explain-config": explain_config.explain,
        "explain-mid": _explain_mid,
        "check-install": check_install.main,
        "restore-limits": restore_limits.main,
        "uninstall": uninstall.main,
    }
    if arguments.command in others:
        return others[arguments.command](arguments)
    try:
        chosen: ManagerSettings | AdmissionSettings = (
            settings.from_sources(AdmissionSettings, arguments, os.environ, ADMISSION_PREFIX)
            if arguments.command == "serve-admission"
            else settings.from_sources(ManagerSettings, arguments, os.environ, ENV_PREFIX)
        )
    except settings.SettingsError as error:
        return _wrong_settings(error.problems)
    logs.configure(chosen.log_format, chosen.log_level)
    kopf_watches.configure_logging()
    try:
        to = credentials.find(chosen.kubeconfig or None)
        kopf_watches.connection_info(to, clock.utc_now())
        if isinstance(chosen, AdmissionSettings):
            from manager.cli.admission import program as admission  # noqa: PLC0415  # its libraries cost a leader 10 MiB

            return admission.Program(chosen, to).run()
        return program.Program(chosen, to).run()
    except (errors.ApiServerError, http_endpoint.CannotListen, kopf_watches.UnsupportedCredentials) as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete
        return 1


def _explain_mid(arguments: argparse.Namespace) -> int:
    if not arguments.node:
        return _wrong_settings(["no node given: use --node NAME"])
    try:
        to = credentials.find(arguments.kubeconfig)
    except errors.NoCredentials as error:
        return _wrong_settings([str(error)])
    return asyncio.run(explain_mid.explain(to, arguments.node, arguments.output, clock.utc_now()))


def _wrong_settings(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return _WRONG_SETTINGS


if __name__ == "__main__":
    sys.exit(main())
