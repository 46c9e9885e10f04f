"""`python -m console`: pages on the loopback of the pod, probes and metrics on its address, until stopped.

`kubectl port-forward` is the only way to the pages, so the right to it is the login and there is no token.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Gauge

from apiserver_client import errors, kubeconfig, session
from component_base import clock, http_endpoint, logs, settings
from component_base.http_endpoint import HttpEndpoint, ProbeResult
from console.cluster.details import Records
from console.cluster.poller import Poller
from console.cluster.reading import NOT_IN_CLUSTER
from console.history.prometheus import CpuHistory
from console.settings import ENV_PREFIX, ConsoleSettings
from console.view import Currency, FleetView
from console.web import server
from console.web.app import PagesApp

log = logging.getLogger("console")


async def run(chosen: ConsoleSettings) -> None:
    """Serve until SIGTERM. Raises errors.NoCredentials and listening.CannotListen."""
    to = kubeconfig.find(chosen.kubeconfig or None, None)
    poller = Poller(to, chosen.namespace, interval_seconds=chosen.interval_seconds, always=True)
    registry = CollectorRegistry()
    add_metrics(registry, lambda: poller.view)
    endpoint = HttpEndpoint(
        chosen.http_address,
        chosen.http_port,
        health=lambda: ProbeResult(ok=poller.is_alive(), text="the reads run" if poller.is_alive() else "they ended"),
        ready=lambda: _readiness(poller),
        registry=registry,
    )
    opened = server.listen(chosen.page_port)
    history = CpuHistory(chosen.prometheus, chosen.prometheus_selector) if chosen.prometheus else None
    pages = PagesApp(poller, _no_records, history)
    endpoint.start()
    poller.start()
    log.info("pages on 127.0.0.1:%d: kubectl port-forward reaches them", opened.getsockname()[1])
    try:
        await server.server(pages.app("")).serve(sockets=[opened])
    finally:
        poller.stop()
        endpoint.stop()


async def _no_records(_api: session.Session, _pod: str) -> Records:
    return NOT_IN_CLUSTER


def _readiness(poller: Poller) -> ProbeResult:
    view = poller.view
    currency = view.currency(clock.utc_now())
    return ProbeResult(
        ok=currency is Currency.CURRENT, text=f"the snapshot is {currency.value}: {view.error or 'fine'}"
    )


def add_metrics(registry: CollectorRegistry, view: Callable[[], FleetView]) -> None:
    """Add the metrics of the newest snapshot, which `view` returns when a scrape arrives."""
    metrics: tuple[tuple[str, str, Callable[[], float]], ...] = (
        (
            "koord_console_snapshot_timestamp_seconds",
            "Unix time of the newest snapshot; 0 before the first.",
            lambda: snapshot.time.timestamp() if (snapshot := view().snapshot) else 0.0,
        ),
        ("koord_console_snapshot_nodes", "Nodes in the newest snapshot.", lambda: len(view().nodes)),
        ("koord_console_read_duration_seconds", "Time that the newest snapshot took.", lambda: view().read_seconds),
        (
            "koord_console_read_failed",
            "Whether the last attempt to read a snapshot failed.",
            lambda: bool(view().error),
        ),
    )
    for name, text, value in metrics:
        Gauge(name, text, registry=registry).set_function(value)


_WRONG_SETTINGS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m console", description="Serve the pages about the cluster on the loopback address of the pod."
    )
    settings.add_arguments(parser, ConsoleSettings, ENV_PREFIX)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped and return the exit code: 2 for wrong settings, 1 for any other error."""
    try:
        chosen = settings.from_sources(ConsoleSettings, _parser().parse_args(argv), os.environ, ENV_PREFIX)
    except settings.SettingsError as error:
        sys.stderr.writelines(f"console: {problem}\n" for problem in error.problems)
        return _WRONG_SETTINGS
    logs.configure(chosen.log_format, chosen.log_level)
    log.info("settings: %s", chosen.model_dump_json())
    try:
        asyncio.run(run(chosen))
    except (errors.NoCredentials, http_endpoint.CannotListen) as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete, a traceback would hide it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
