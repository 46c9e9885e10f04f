"""Request the explanation of a pod's placement from a running plugin: command `explain-pod NAMESPACE/NAME`."""

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
from component_base import listening
from scheduler_plugin.decisions import namespace_page
from scheduler_plugin.settings import SchedulerPluginSettings

_FINE, _FAILED, _WRONG_INPUT = 0, 1, 2
_TIMEOUT_SECONDS: Final = 10.0
_NODES_SHOWN: Final = 20


class NoExplanation(Exception):
    """The plugin did not explain the pod; the message states why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    address = f"127.0.0.1:{SchedulerPluginSettings.model_fields['debug_port'].default}"
    parser.add_argument("pod", metavar="NAMESPACE/NAME", help="pod to explain")
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        default=address,
        help=f"address of the plugin's debug-port, e.g. of kubectl port-forward (default: {address})",
    )
    parser.add_argument(
        "--nodes", type=int, default=_NODES_SHOWN, help=f"most nodes per decision; 0: all (default: {_NODES_SHOWN})"
    )
    parser.add_argument("--output", choices=("text", "json"), default="text", help="output format (default: text)")


def run(arguments: argparse.Namespace) -> int:
    """Request and print the explanation; return the exit code."""
    host, _, port = arguments.address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()):
        sys.stderr.write(f"--address: got {arguments.address!r}, want HOST:PORT\n")
        return _WRONG_INPUT
    try:
        page = _request(host.strip("[]"), int(port), arguments.pod, arguments.nodes)
    except NoExplanation as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    if arguments.output == "json":
        sys.stdout.write(json.dumps(page, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(page))
    return _FINE


def _request(host: str, port: int, pod: str, most_nodes: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
    where = listening.host_and_port(host, port)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path_of(pod, most_nodes))
            response = connection.getresponse()
            body = response.read().decode()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoExplanation(
                f"cannot reach the plugin on {where} ({error}); "
                "forward its debug-port, set --address, or run this command in its container (kubectl exec)"
            ) from error
    return page_in(response.status, body, where)


def path_of(pod: str, most_nodes: int) -> str:
    """Return the path of the page about a pod, `namespace/name`; 0: all nodes."""
    return f"/debug/pods/{urllib.parse.quote(pod)}?nodes={most_nodes}"


def page_in(status: int, body: str, where: str) -> dict[str, Any]:
    """Return the page of an answer. Raises NoExplanation."""
    if status != http.client.OK:
        raise NoExplanation(body.strip() or f"{where} responded with {status}")
    with contextlib.suppress(ValueError, RecursionError):
        page = json.loads(body)
        if isinstance(page, dict) and "decisions" in page:
            return page
    raise NoExplanation(f"{where} is not the debug-port of this plugin, it responded with {body[:100]!r}")


def text(page: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the text output."""
    if page.get("midOfNamespace"):
        yield namespace_page.text(page["midOfNamespace"])
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
        amounts = "0, its quantities cannot be parsed"
    else:
        cpu, memory = estimate.get("cpu", 0), estimate.get("memory", 0)
        amounts = f"{cpu / 1000:g} cores and {memory / 2**20:.0f}Mi until it is measured"
    kind = "Prod" if decision["isProd"] else "not Prod"
    waited = decision.get("waitedForLoadSeconds")
    soft = f", refused for load alone for {waited:.0f} s: limits are soft" if waited else ""
    return f"{amounts}, {kind}" + (", bound to one node: limits do not apply" if decision["isPinned"] else soft)
