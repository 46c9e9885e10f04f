"""Command `koordctl estimate`: what Mid resources could give a cluster in which nothing of the suite is installed.

By what there is: the history of a Prometheus, given or in the cluster, else the present from the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import math
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from click import Option

from api_types import names
from api_types.colocation import controller_config
from api_types.kubernetes import pods, quantities
from api_types.kubernetes.pods import Pod
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Terms
from apiserver_client import errors, objects, resources
from component_base import clock
from fleet import port_forward, scheduler_config
from fleet.node_state import Amounts, NodeState
from fleet.port_forward import CannotForward, PodPort
from fleet.reading import Reader
from koordctl.backtest import command as backtest
from koordctl.backtest.cluster_history import NoSeries
from koordctl.backtest.prometheus import CannotRead, RejectedQuery
from koordctl.backtest.workers import WorkerEnded
from koordctl.cli import answer, command, flags, page
from koordctl.cli.answer import Answer
from koordctl.cli.command import ProgressLine, WrongUsage
from koordctl.estimate import estimates, forecast
from koordctl.estimate.estimates import ClusterNodes, EstimateDocument
from koordctl.gain.gains import GIB

_USAGE: Final = resources.Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
_PROMETHEUS: Final = ("app.kubernetes.io/name=prometheus", "app=prometheus")
"""Labels of its pods, by its operator and its charts."""
_PORT: Final = 9090
_PRICE: Final = flags.FiniteRange(min=0)
_SHARED: Final = (
    "prometheus", "token_file", "ca_file", "timeout", "start", "end", "selector", "nodes", "node_label", "metric",
    "priority_class", "workers",
)  # fmt: skip
PARAMETERS: Final = (
    *flags.CONNECTION,
    *flags.output((*answer.FORMATS, "html")),
    *(parameter for parameter in backtest.PARAMETERS if parameter.name in _SHARED),
    Option(["--now"], is_flag=True, help="the present only, without a Prometheus"),
    Option(["--all", "every_node"], is_flag=True, help=f"every node, not {forecast.SAMPLE} of a pool"),
    Option(["--pool-label"], metavar="LABEL", help="label of nodes with their pool (default: those of providers)"),
    Option(["--cpu-price"], type=_PRICE, metavar="PRICE", help="of a core-hour, in any currency"),
    Option(["--memory-price"], type=_PRICE, metavar="PRICE", help="of a GiB-hour, in the same"),
)
ResultT = TypeVar("ResultT")


class _ReadNodes(NamedTuple):
    """The nodes, and by name their allocatable and their usage where metrics-server is served."""

    cluster: ClusterNodes
    allocatable: Mapping[str, Amounts]
    used: Mapping[str, Amounts]


class _NodeUsage(msgspec.Struct):
    metadata: pods.ObjectMeta = pods.ObjectMeta()
    usage: pods.QuantityMap = {}


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        return command.show(options, _answer(_estimate(options), options))
    except RejectedQuery as error:
        raise WrongUsage(str(error)) from None
    except (errors.ApiServerError, CannotRead, NoSeries, WorkerEnded) as error:
        return command.fail(str(error), answer.NOT_READ)
    except KeyboardInterrupt:
        return command.fail("interrupted", answer.INTERRUPTED)


def _answer(document: EstimateDocument, options: Namespace) -> Answer:
    document.worth_a_month = estimates.worth(document)
    answered = estimates.answer(document)
    if options.output != "html":
        return answered
    titles = ("By node pool", "Forecasts against usage")
    sections = {title: page.table(of) for title, of in zip(titles, answered.tables, strict=False)}
    written = f"{clock.utc_now():%Y-%m-%d %H:%M} UTC by koordctl estimate"
    lines = [*estimates.summary(document), *(f"Next: {step}." for step in document.next_steps)]
    text = page.text(estimates.title(document), written, lines, sections, document.missing)
    return Answer(document, head=text.splitlines(), exit_code=answered.exit_code)


def _estimate(options: Namespace) -> EstimateDocument:
    """Return the estimate of the best source that there is."""
    why, read = "a forecast: --now was given", None
    if not options.now:
        read, places = asyncio.run(_reading(options, _read_nodes))
        cluster = read.cluster
        if options.prometheus:
            return _forecast(options, cluster)
        why = "a forecast: no pod has a label of Prometheus; give --prometheus URL"
        for place in places:
            try:
                return asyncio.run(_forwarded(options, cluster, place))
            except (CannotForward, CannotRead, NoSeries) as error:
                text = str(error).removeprefix(f"{place}: ").splitlines()[0]
                why = f"a forecast: {place}: {text}; or give --prometheus URL"
    document = asyncio.run(_reading(options, functools.partial(_now, cluster_nodes=read)))
    document.missing = [why, *document.missing]
    return document


async def _reading(options: Namespace, read: Callable[[Reader, Namespace], Awaitable[ResultT]]) -> ResultT:
    async with command.connected(options) as api:
        with ProgressLine(sys.stderr) as progress:
            return await read(Reader(api, clock.utc_now(), progress.report), options)


def _forecast(options: Namespace, cluster: ClusterNodes) -> EstimateDocument:
    with ProgressLine(sys.stderr) as progress:
        return forecast.read(options, cluster, progress)


async def _forwarded(options: Namespace, cluster: ClusterNodes, place: PodPort) -> EstimateDocument:
    async with port_forward.open_forward(place, command.caller(options)) as forward:
        url = f"http://127.0.0.1:{forward.local_port}"
        document = await asyncio.to_thread(_forecast, Namespace(**{**vars(options), "prometheus": url}), cluster)
        document.source = str(place)
        return document


async def _read_nodes(reader: Reader, options: Namespace) -> tuple[_ReadNodes, list[PodPort]]:
    """Read the nodes, their usage, and where a Prometheus may be. Raises NotRead."""
    read = await _nodes(reader, options)
    places = list[PodPort]()
    for labels in () if options.prometheus else _PROMETHEUS:
        with reader.attempt("pods"):
            places += [
                PodPort(pod.metadata.namespace, pod.metadata.name, _PORT)
                for pod in (await objects.list_all(reader.api, resources.PODS, label_selector=labels, decode=Pod)).items
                if pod.status.phase == "Running"
            ]
    return read, list(dict.fromkeys(places))


async def _nodes(reader: Reader, options: Namespace) -> _ReadNodes:
    """Read the nodes, their allocatable, and their usage where metrics-server is served. Raises NotRead."""
    nodes, used = dict[str, Amounts](), dict[str, Amounts]()
    pools, missing = {}, list[str]()
    with reader.attempt("nodes"):
        for node in (await objects.list_all(reader.api, resources.NODES, decode=pods.Node)).items:
            with contextlib.suppress(quantities.InvalidQuantity, KeyError):
                amounts, name = pods.allocatable(node), node.metadata.name
                nodes[name] = Amounts(amounts[names.CPU], amounts[names.MEMORY])
                pools[name] = estimates.pool_of(_pair(nodes[name]), pods.label_map(node.metadata), options.pool_label)
    if not nodes:
        raise command.nothing_read(reader) if reader.unread else NoSeries(f"{reader.api.server} has no nodes")
    try:
        for item in (await objects.list_all(reader.api, _USAGE, decode=_NodeUsage)).items:
            with contextlib.suppress(quantities.InvalidQuantity, KeyError):
                amounts = pods.units(item.usage)
                used[item.metadata.name] = Amounts(amounts[names.CPU], amounts[names.MEMORY])
        if without := sorted(nodes.keys() - used):
            some = f"{len(without)} of {len(nodes)} nodes, such as {without[0]}"
            missing.append(f"usage now of {some}: metrics-server has none")
    except errors.UnknownResource:
        missing.append("usage now: no nodes.metrics.k8s.io is served; want metrics-server")
    except errors.ApiServerError as error:
        missing.append(f"usage now: {error}")
    limits = scheduler_config.DEFAULT_LIMITS
    hot = [name for name in sorted(used.keys() & nodes) if NodeState(name, nodes[name], used[name]).above(limits)]
    allocatable = {name: _pair(amounts) for name, amounts in nodes.items()}
    cluster = ClusterNodes(reader.api.server, allocatable, pools, hot if used else None, missing)
    return _ReadNodes(cluster, nodes, used)


async def _now(reader: Reader, options: Namespace, cluster_nodes: _ReadNodes | None) -> EstimateDocument:
    """Compare requests of Prod pods with the usage of nodes that are read here, if not before. Raises NotRead."""
    cluster, nodes, used = cluster_nodes or await _nodes(reader, options)
    if used.keys() & nodes.keys():
        cluster = dataclasses.replace(cluster, pools={name: cluster.pools[name] for name in nodes if name in used})
    running = await reader.pods(None)
    if running is None:
        raise command.nothing_read(reader)
    requested = {name: [0, 0] for name in cluster.pools}
    for pod in running:
        if pod.band == "prod" and pod.node in requested:
            for column, amount in enumerate(pod.requests):
                requested[pod.node][column] += amount or 0
    read = {}
    for name, prod in requested.items():
        read[name] = np.full((len(estimates.KINDS), 2), math.nan)
        read[name][0] = _pair(Amounts(*prod))
        if name in used:
            read[name][1] = _pair(used[name])
            read[name][2] = _pair(Amounts(*map(_offered, nodes[name], prod, used[name])))
    total, by_pool = estimates.pool_estimates(cluster, read)
    return EstimateDocument(
        source=cluster.server,
        total=total,
        pools=by_pool,
        forecasts=[],
        prod_above_peak=[],
        hot_nodes=cluster.hot,
        cpu_price=options.cpu_price,
        memory_price=options.memory_price,
        missing=cluster.missing,
        next_steps=[estimates.AFTERWARDS],
    )


def _offered(allocatable: int | None, requested: int, used: int | None) -> int:
    """Return the Mid of the default configuration where the usage of the whole node is the peak of Prod."""
    default = controller_config.DEFAULTS
    terms = Terms(
        allocatable=allocatable, capacity=allocatable, allocated_prod=requested, peak_prod=used,
        unused=(allocatable or 0) - (used or 0), reclaim_ratio_percent=default.mid_reclaim_ratio_percent,
        threshold_percent=default.mid_cpu_threshold_percent, unallocated_percent=default.mid_unallocated_percent,
    )  # fmt: skip
    return mid_resource.calculate(terms, has_floor=False).value


def _pair(amounts: Amounts) -> tuple[float, float]:
    """Return cores and GiB."""
    return (amounts.cpu or 0) / 1000, (amounts.memory or 0) / GIB
