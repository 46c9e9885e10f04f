"""Command `koordctl explain pod`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from api_types.kubernetes import pods
from apiserver_client import errors, objects, resources
from fleet import port_forward, wire
from fleet.findings import SCHEDULER
from fleet.port_forward import CannotForward, PodPort
from fleet.reading import Reader
from koordctl.cli import command
from koordctl.cli.answer import Answer
from koordctl.explain import pod
from manager.cache import store
from manager.cli import explain_eviction
from manager.leader_election import lease
from manager.mid_resource import spec_policy
from manager.mid_resource.decision import Action
from scheduler_plugin.cli import explain_pod
from scheduler_plugin.settings import SchedulerPluginSettings

_DEBUG_PORT: Final[int] = SchedulerPluginSettings.model_fields["debug_port"].default
_NODES_SHOWN: Final = 10


class _Name(NamedTuple):
    namespace: str
    name: str


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("pod", metavar="[NAMESPACE/]NAME", type=command.name, help="pod to explain")
    add("-n", "--namespace", help="namespace of the pod (default: that of the context)")
    add("--nodes", type=int, default=_NODES_SHOWN, help=f"most nodes of the decision; 0: all (default: {_NODES_SHOWN})")
    command.add_arguments(parser)
    command.add_suite_argument(parser)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""

    async def read(reader: Reader) -> Answer:
        return await _explain(reader, options)

    return command.run(options, read, lambda given: _name(given.pod, ""))


async def _explain(reader: Reader, options: Namespace) -> Answer:
    name = _name(options.pod, options.namespace or reader.api.namespace)
    raw = await objects.get(reader.api, resources.PODS, name.name, namespace=name.namespace, decode=dict[str, Any])
    try:
        seen, conditioned = msgspec.convert(raw, pods.Pod), msgspec.convert(raw, wire.ConditionedPod)
    except msgspec.ValidationError as error:
        raise errors.DecodeError(f"pod {name.namespace}/{name.name}: {error}") from error
    decisions, lacks = await _decisions(options, reader, name)
    nodes = () if seen.spec.node_name else await reader.nodes()
    given = pod.Explained(
        seen,
        reader.now,
        conditioned.status.conditions or (),
        decisions,
        nodes or (),
        await _eviction(reader, seen.spec.node_name) if seen.spec.node_name else (),
    )
    unread = command.notes(each for each in reader.unread if each.is_right)
    return pod.answer(given, max(options.nodes, 0), [*lacks, *unread])


def _name(text: str, namespace: str) -> _Name:
    before, slash, name = text.rpartition("/")
    if not name or (slash and not before) or "/" in before:
        raise command.WrongUsage(f"seen the pod {text!r}, want NAMESPACE/NAME, or NAME with -n")
    return _Name(before or namespace, name)


async def _decisions(
    options: Namespace, reader: Reader, name: _Name
) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
    """Return the recorded decisions on the pod, or a line about why there are none."""
    holder = ""
    with reader.attempt(f"leases/{SCHEDULER}"):
        found = await objects.get(
            reader.api, resources.LEASES, SCHEDULER, namespace=options.suite_namespace, decode=lease.Lease
        )
        holder = (found.spec.holder_identity or "").partition("_")[0]
    if not holder:
        return (), [f"no decision record: the Lease {options.suite_namespace}/{SCHEDULER} has no holder to ask"]
    to = PodPort(options.suite_namespace, holder, _DEBUG_PORT)
    try:
        async with port_forward.open_forward(to, command.caller(options)) as forward:
            page = await forward.get(explain_pod.path_of(f"{name.namespace}/{name.name}", 0))
        read = explain_pod.page_in(page.status, page.body.decode(errors="replace"), str(to))
    except (CannotForward, explain_pod.NoExplanation) as error:
        return (), [f"no decision record, only what kube-scheduler wrote to the pod: {error}"]
    decisions = read["decisions"]
    is_list = isinstance(decisions, list) and all(isinstance(each, dict) for each in decisions)
    return (decisions if is_list else []), []


async def _eviction(reader: Reader, node_name: str) -> Sequence[str]:
    """Return the sentences about evictions on the node of the pod."""
    with reader.attempt(f"nodes/{node_name}"):
        node = store.with_mid_status(await objects.get(reader.api, resources.NODES, node_name, decode=pods.Node))
        metric = await objects.get(reader.api, resources.NODE_METRICS, node_name, decode=wire.NodeMetric)
        policy = spec_policy.policy_of(metric)
        found = await explain_eviction.of_node(reader.api, node, metric, policy, reader.now)
        decided = spec_policy.decide(node, metric, reader.now)
        if found or decided is None or decided.action is not Action.CALCULATE:
            return found
        return [f"nothing on {node_name} is short enough to evict a Mid pod, by its newest report"]
    return ()
