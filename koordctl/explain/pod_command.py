"""Command `koordctl explain pod`."""

from __future__ import annotations

import contextlib
import http
import itertools
import json
import urllib.parse
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from click import Argument, Option

from api_types import names
from api_types.kubernetes import pods
from api_types.kubernetes.priority_and_qos import PriorityClass, priority_class
from apiserver_client import errors, objects, resources, session
from apiserver_client.decoding import Key
from fleet import mid_explanation, pod_state, port_forward, wire
from fleet.findings import SCHEDULER
from fleet.node_state import NodeState
from fleet.port_forward import CannotForward, PodPort
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import Answer
from koordctl.explain import pod, room
from manager.cache import store
from manager.mid_resource import decision
from manager.mid_resource.decision import Action
from scheduler_plugin.decisions import pages
from scheduler_plugin.settings import SchedulerPluginSettings

_DEBUG_PORT: Final[int] = SchedulerPluginSettings.model_fields["debug_port"].default
_MOST_READ: Final = 5
"""Nodes that are read: those with the least missing by their reports."""


class _Record(NamedTuple):
    """What the scheduler plugin recorded about a pod."""

    decisions: Sequence[Mapping[str, Any]] = ()
    mid_of_namespace: str = ""
    """What its namespace holds of Mid, as a sentence."""
    lacks: Sequence[str] = ()
    """A line about why there is none."""


PARAMETERS: Final = (
    Argument(
        ["pod"],
        metavar="[NAMESPACE/]NAME",
        type=flags.name,
        shell_complete=flags.names_of_cluster("pods"),
        help="pod to explain",
    ),
    Option(
        ["-n", "--namespace"],
        shell_complete=flags.names_of_cluster("namespaces"),
        help="namespace of the pod (default: that of the context)",
    ),
    Option(["--nodes"], type=int, default=10, help="most nodes of the decision; 0: all"),
    *flags.READING,
    flags.SUITE_NAMESPACE,
)


@command.reads(lambda options: _name(options.pod, ""))
async def run(reader: Reader, options: Namespace) -> Answer:
    """Read, and return the answer."""
    name = _name(options.pod, options.namespace or reader.api.namespace)
    raw = await objects.get(reader.api, resources.PODS, name.name, namespace=name.namespace, decode=dict[str, Any])
    try:
        subject = msgspec.convert(raw, pods.Pod)
        conditions = msgspec.convert((raw.get("status") or {}).get("conditions") or [], list[wire.WireCondition])
    except msgspec.ValidationError as error:
        raise errors.DecodeError(f"pod {name.namespace}/{name.name}: {error}") from error
    record, is_mid = await _record(options, reader, name), priority_class(subject) is PriorityClass.MID
    nodes = () if subject.spec.node_name else await reader.nodes()
    fitting: Sequence[room.Room] = ()
    if any(pod.INSUFFICIENT in (condition.message or "") for condition in conditions):
        with reader.attempt("nodes"):
            config = await reader.scheduler_config(options.suite_namespace, notes_rights=False)
            mid_requests = dict(zip(names.MID_RESOURCES, pod_state.read_requests(subject)[1], strict=True))
            fitting = await rooms(reader.api, raw, room.nearest(mid_requests, nodes or (), config.usage_limits))
    explained = pod.ExplainedPod(
        subject,
        reader.now,
        conditions,
        record.decisions,
        nodes or (),
        await _eviction(reader, subject.spec.node_name) if subject.spec.node_name and is_mid else (),
        fitting,
        record.mid_of_namespace,
    )
    unread = command.missing_rights(reader)
    return pod.answer(explained, max(options.nodes, 0), [*record.lacks, *unread])


async def rooms(api: session.Session, raw: Mapping[str, Any], near: Iterable[NodeState]) -> Sequence[room.Room]:
    """Read the nodes that are nearest, with their pods; return what fits there. Raises errors.ApiServerError."""
    fitting = []
    for state in itertools.islice(near, _MOST_READ):
        node = await objects.get(api, resources.NODES, state.name)
        on_node = await objects.list_all(api, resources.PODS, field_selector=f"spec.nodeName={state.name}")
        if claim := room.room(raw, node, on_node.items, state):
            fitting.append(claim)
    return fitting


def _name(text: str, namespace: str) -> Key:
    before, slash, name = text.rpartition("/")
    if not name or (slash and not before) or "/" in before:
        raise command.WrongUsage(f"seen the pod {text!r}, want NAMESPACE/NAME, or NAME with -n")
    return Key(before or namespace, name)


async def _record(options: Namespace, reader: Reader, name: Key) -> _Record:
    """Request what the leading replica of the scheduler recorded about the pod."""
    workload = await reader.workload(options.suite_namespace, SCHEDULER)
    leader = await reader.lease(options.suite_namespace, SCHEDULER, workload)
    holder = (leader.holder_identity or "").partition("_")[0]
    if not holder and any(gap.is_right for gap in reader.unread):
        return _Record()  # the missing right is named
    if not holder:
        lack = f"no decision record: no replica of {SCHEDULER} in {options.suite_namespace} leads"
        return _Record(lacks=[lack])
    to = PodPort(options.suite_namespace, holder, _DEBUG_PORT)
    try:
        async with port_forward.open_forward(to, command.caller(options)) as forward:
            response = await forward.get(f"/debug/pods/{urllib.parse.quote(f'{name.namespace}/{name.name}')}?nodes=0")
        if response.status == http.HTTPStatus.NOT_FOUND:
            before = "kube-scheduler refused all nodes before it asked the plugin, or the record is too old"
            return _Record(lacks=[f"no decision record: {before}"])
        page = _page(response.status, response.body.decode(errors="replace"), str(to))
    except CannotForward as error:
        return _Record(lacks=[f"no decision record, only what kube-scheduler wrote to the pod: {error}"])
    decisions, use = page["decisions"], page.get("midOfNamespace")
    is_list = isinstance(decisions, list) and all(isinstance(decision, dict) for decision in decisions)
    return _Record(decisions if is_list else [], pages.namespace_text(use) if use else "")


def _page(status: int, body: str, where: str) -> Mapping[str, Any]:
    """Return the page of a response. Raises CannotForward."""
    if status != http.HTTPStatus.OK:
        raise CannotForward(body.strip() or f"{where} responded with {status}")
    with contextlib.suppress(ValueError, RecursionError):
        page = json.loads(body)
        if isinstance(page, dict) and "decisions" in page:
            return page
    raise CannotForward(f"{where} is not the debug-port of this plugin, it responded with {body[:100]!r}")


async def _eviction(reader: Reader, node_name: str) -> Sequence[str]:
    """Return the sentences about evictions on the node of the pod."""
    with reader.attempt(f"nodes/{node_name}"):
        node = store.with_mid_status(await objects.get(reader.api, resources.NODES, node_name, decode=pods.Node))
        metric = await objects.get(reader.api, resources.NODE_METRICS, node_name, decode=wire.WireNodeMetric)
        sentences = await mid_explanation.explain_eviction(reader.api, node, metric, reader.now)
        decided = decision.decide_by_spec(node, metric, reader.now)
        if sentences or decided is None or decided.action is not Action.CALCULATE:
            return sentences
        return [f"nothing on {node_name} is short enough to evict a Mid pod, by its newest report"]
    return ()
