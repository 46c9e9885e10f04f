"""`python -m manager run` in a cluster; `check-config` anywhere; `explain-config`, `explain-mid` beside a manager.

`uninstall` and `check-install` are what the chart runs as a hook and as `helm test`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence

import prometheus_client
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from apiserver_client import connection, credentials, errors
from component_base import http_endpoint, logs, settings
from manager import leader
from manager.cache import kopf_watches
from manager.cli import check_config, check_install, explain_config, explain_mid, uninstall
from manager.leader_election.elector import Role
from manager.leader_election.runner import LeaderElection
from manager.metrics import Telemetry
from manager.mid_resource.reasons import Reason
from manager.settings import ENV_PREFIX, ManagerSettings
from manager.slo_config.evaluation import State

log = logging.getLogger("manager")

_WRONG_SETTINGS = 2
_LOOK_FOR_SIGNALS_SECONDS = 1.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m manager", description="Turns configuration and reports into Mid resources on nodes."
    )
    verbs = "run,check-config,explain-config,explain-mid,check-install,uninstall"
    commands = parser.add_subparsers(dest="command", metavar=f"{{{verbs}}}")
    run = commands.add_parser("run", help="run in a cluster (the default)")
    settings.add_arguments(run, ManagerSettings, ENV_PREFIX)
    check = commands.add_parser("check-config", help="say what is wrong with a colocation-config document")
    check.add_argument("file", metavar="FILE", help="JSON document or ConfigMap manifest; - is standard input")
    explain_config.add_arguments(
        commands.add_parser("explain-config", help="say which strategy holds for a node, and where each value is from")
    )
    mid = commands.add_parser("explain-mid", help="say why a node's Mid resources are what they are")
    mid.add_argument("--node", required=True, help="name of the node")
    mid.add_argument("--output", choices=("text", "json"), default="text", help="form of the answer (default: text)")
    mid.add_argument("--kubeconfig", help="kubeconfig file; default as of the command run")
    check_install.add_arguments(commands.add_parser("check-install", help="say whether the installation works"))
    uninstall.add_arguments(commands.add_parser("uninstall", help="take away what the suite has written"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 2 means that the settings are wrong, 1 that something else is."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given.insert(0, "run")
    arguments = _parser().parse_args(given)
    others = {
        "check-config": lambda given: check_config.check(given.file),
        "explain-config": explain_config.explain,
        "explain-mid": _explain_mid,
        "check-install": check_install.main,
        "uninstall": uninstall.main,
    }
    if arguments.command in others:
        return others[arguments.command](arguments)
    try:
        chosen = settings.from_sources(ManagerSettings, arguments, os.environ, ENV_PREFIX)
    except settings.SettingsError as error:
        return _refuse(error.problems)
    logs.configure(chosen.log_format, chosen.log_level)
    logging.getLogger("kopf").setLevel(logging.WARNING)  # its own story of each event is of no use to an operator
    for name in ("orchestration", "running"):  # what ends them is raised to us as well, and told below
        logging.getLogger(f"kopf._core.reactor.{name}").setLevel(logging.CRITICAL)
    try:
        to = credentials.find(chosen.kubeconfig or None)
        kopf_watches.connection_info(to, leader.now())
        return _Program(chosen, to).run()
    except (errors.ApiServerError, http_endpoint.CannotListen, kopf_watches.UnsupportedCredentials) as error:
        log.error("%s", error)  # noqa: TRY400  # the message says it all
        return 1


def _explain_mid(arguments: argparse.Namespace) -> int:
    if not arguments.node:
        return _refuse(["which node? give --node NAME"])
    try:
        to = credentials.find(arguments.kubeconfig)
    except errors.NoCredentials as error:
        return _refuse([str(error)])
    return asyncio.run(explain_mid.explain(to, arguments.node, arguments.output, leader.now()))


def _refuse(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return _WRONG_SETTINGS


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    """Errors in a group, or the error itself."""
    if not isinstance(failure, BaseExceptionGroup):
        yield failure
        return
    for each in failure.exceptions:
        yield from _leaves(each)


class _Program:
    """One process: a candidate first, then the leader, until it is told to end or loses the Lease."""

    def __init__(self, chosen: ManagerSettings, to: connection.Connection) -> None:
        self._settings = chosen
        self._to = to
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._role_changed = threading.Event()
        self._stop = threading.Event()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        for collector in (GCCollector, PlatformCollector, ProcessCollector):
            collector(registry=registry)
        self._telemetry = Telemetry(registry, reasons=[*Reason], states=[*State])
        self._leadership = leader.Leadership()
        self._election = LeaderElection(to, chosen, self._identity, self._on_role)
        self._endpoint = http_endpoint.HttpEndpoint(
            chosen.http_address, chosen.http_port, health=self._health, ready=self._ready, registry=registry
        )

    def run(self) -> int:
        """Run until told to end. Raises CannotListen."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._end())
        self._endpoint.start()
        failed = False
        log.info("candidate %s for the Lease %s at %s", self._identity, self._settings.lease, self._to.server)
        self._election.start()
        try:
            while not self._role_changed.wait(_LOOK_FOR_SIGNALS_SECONDS):
                pass  # a signal that comes just before a wait begins is seen when it ends
            if self._election.role is Role.LEADER and not self._stop.is_set():
                failed = not self._lead()
        finally:
            lost = self._election.role is Role.LOST
            self._election.stop()
            self._endpoint.stop()
        return int(lost or failed)

    def _lead(self) -> bool:
        """Lead until the end; whether it was the end that was asked for."""
        log.info("leading")
        work = leader.lead(
            self._to,
            self._settings,
            self._telemetry,
            self._leadership,
            identity=self._identity,
            may_write=self._election.may_write,
            stop=self._stop,
        )
        try:
            asyncio.run(work)
        except Exception as failure:
            for reason in _leaves(failure):
                if isinstance(reason, kopf_watches.CannotFollow):
                    log.error("cannot go on: %s", reason)  # noqa: TRY400  # the message says it all
                    continue
                log.exception("cannot go on: %s: %s", type(reason).__name__, reason, exc_info=reason)
            return False
        return True

    def _end(self) -> None:
        self._stop.set()
        self._role_changed.set()

    def _on_role(self, role: Role) -> None:
        self._telemetry.leader.set(int(role is Role.LEADER))
        if role is Role.LOST:
            self._stop.set()
        self._role_changed.set()

    def _health(self) -> http_endpoint.ProbeResult:
        if not self._election.is_alive():
            return http_endpoint.ProbeResult(False, "the leader election has ended")
        if self._election.role is Role.LEADER:
            trouble = self._leadership.trouble(self._settings.watch_silence_seconds)
            if trouble is not None:
                return http_endpoint.ProbeResult(False, trouble)
        return http_endpoint.ProbeResult(True, f"alive as {self._election.role.value}")

    def _ready(self) -> http_endpoint.ProbeResult:
        silence = self._election.silence_seconds()
        if silence > self._settings.lease_duration_seconds:
            why = self._election.last_error or "no answer"
            return http_endpoint.ProbeResult(False, f"cannot look after the Lease for {silence:.0f} s: {why}")
        if self._election.role is Role.LEADER and self._leadership.problem:
            return http_endpoint.ProbeResult(False, f"leader, not working: {self._leadership.problem}")
        return http_endpoint.ProbeResult(True, self._election.role.value)


if __name__ == "__main__":
    sys.exit(main())
