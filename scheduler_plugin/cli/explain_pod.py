"""`python -m scheduler_plugin explain-pod NAMESPACE/NAME`: ask a running plugin why a pod is where it is."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api_types.kubernetes import times
from scheduler_plugin.settings import SchedulerPluginSettings

_FINE, _FAILED, _WRONG_INPUT = 0, 1, 2
_PATIENCE_SECONDS: Final = 10.0
_NODES_SHOWN: Final = 20


class NoAnswer(Exception):
    """The plugin did not explain the pod; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    address = f"127.0.0.1:{SchedulerPluginSettings.model_fields['http_port'].default}"
    parser.add_argument("pod", metavar="NAMESPACE/NAME")
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        default=address,
        help=f"where the plugin has its probes, e.g. after kubectl port-forward (default: {address})",
    )
    parser.add_argument(
        "--nodes", type=int, default=_NODES_SHOWN, help=f"of a decision at most; 0: all (default: {_NODES_SHOWN})"
    )
    parser.add_argument("--output", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """Ask and print; gives the exit code."""
    host, _, port = arguments.address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()):
        sys.stderr.write(f"--address is {arguments.address!r}, want HOST:PORT\n")
        return _WRONG_INPUT
    try:
        page = _ask(host.strip("[]"), int(port), arguments.pod, arguments.nodes)
    except NoAnswer as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    if arguments.output == "json":
        sys.stdout.write(json.dumps(page, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(page))
    return _FINE


def _ask(host: str, port: int, pod: str, most_nodes: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE_SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request("GET", f"/debug/pods/{urllib.parse.quote(pod)}?nodes={most_nodes}")
            answer = connection.getresponse()
            body = answer.read().decode()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(
                f"no plugin answers on {host}:{port} ({error}); "
                "forward its http-port, or run this in its container: kubectl exec, or name it by --address"
            ) from error
    if answer.status != http.client.OK:
        raise NoAnswer(body.strip() or f"{host}:{port} answered {answer.status} {answer.reason}")
    with contextlib.suppress(ValueError, RecursionError):
        page = json.loads(body)
        if isinstance(page, dict) and "decisions" in page:
            return page
    raise NoAnswer(f"{host}:{port} does not answer like this plugin: {body[:100]!r}")


def text(page: Mapping[str, Any]) -> Iterator[str]:
    """Lines for people."""
    for number, decision in enumerate(page["decisions"]):
        if number:
            yield ""
        at = times.format_epoch(decision["at"])
        yield f"{page['pod']}, decided {at}: {decision['nodesPassed']} of {decision['nodesAsked']} nodes passed"
        yield f"  {decision['outcome']}"
        yield f"  the pod counts as {_described(decision)}"
        width = max((len(node["node"]) for node in decision["nodes"]), default=0)
        yield from (f"  {node['node']:<{width}}  {node['sentence']}" for node in decision["nodes"])
        if decision["nodesLeftOut"]:
            yield f"  and {decision['nodesLeftOut']} more nodes (--nodes 0 shows all)"


def _described(decision: Mapping[str, Any]) -> str:
    estimate = decision["estimate"]
    if estimate is None:
        amounts = "nothing that could be estimated"
    else:
        cpu, memory = estimate.get("cpu", 0), estimate.get("memory", 0)
        amounts = f"{cpu / 1000:g} cores and {memory / 2**20:.0f}Mi until it is measured"
    kind = "Prod" if decision["isProd"] else "not Prod"
    return f"{amounts}, {kind}" + (
        ", meant for its node only: limits do not hold for it" if decision["isPinned"] else ""
    )
