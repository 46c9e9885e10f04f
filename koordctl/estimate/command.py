"""Command `koordctl estimate`: what Mid resources could give a cluster in which nothing of the suite is installed."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
from click import FloatRange, Option

from api_types import names
from api_types.colocation import controller_config
from api_types.kubernetes import pods, quantities
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Terms
from apiserver_client import errors, objects, resources
from component_base import clock
from fleet import scheduler_config
from fleet.node_state import UNKNOWN, Amounts, NodeState
from fleet.reading import Reader
from koordctl.cli import answer, command, flags, page
from koordctl.cli.answer import Answer
from koordctl.cli.command import ProgressLine
from koordctl.estimate import estimates
from koordctl.estimate.estimates import Estimate, NodeEstimate
from koordctl.gain.gains import GIB, GainSums

_USAGE: Final = resources.Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
_POOL_LABELS: Final = (
    "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool", "node.kubernetes.io/instance-type",
)  # fmt: skip
_PRICE: Final = FloatRange(min=0)
PARAMETERS: Final = (
    *flags.CONNECTION,
    *flags.output((*answer.FORMATS, "html")),
    Option(["--pool-label"], metavar="LABEL", help="label of nodes with their pool (default: those of providers)"),
    Option(["--cpu-price"], type=_PRICE, metavar="PRICE", help="of a core-hour, in any currency"),
    Option(["--memory-price"], type=_PRICE, metavar="PRICE", help="of a GiB-hour, in the same"),
)
_FOLLOWING: Final = (
    "koordctl backtest --prometheus URL has forecasts instead of one moment, from series of cAdvisor",
    "koordctl check --pre, before an installation; after it, koordctl gain has the same amounts",
)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class ClusterNodes:
    """What the API server has."""

    server: str = "the cluster"
    allocatable: Mapping[str, GainSums] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)
    """Pool by node."""


class _NodeUsage(msgspec.Struct):
    metadata: pods.ObjectMeta = pods.ObjectMeta()
    usage: pods.QuantityMap = {}


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        return command.show(options, _answer(asyncio.run(_reading(options, now)), options))
    except errors.ApiServerError as error:
        return command.fail(str(error), answer.NOT_READ)
    except KeyboardInterrupt:
        return command.fail("interrupted", answer.INTERRUPTED)


def _answer(estimate: Estimate, options: Namespace) -> Answer:
    answered = estimates.answer(estimate)
    if options.output != "html":
        return answered
    made = estimates.document(estimate)
    titles = ("By node pool", "Forecasts against usage")
    sections = {title: page.table(of) for title, of in zip(titles, answered.tables, strict=False)}
    lines = estimates.summary(made, estimate)
    written = f"{clock.utc_now():%Y-%m-%d %H:%M} UTC by koordctl estimate"
    text = page.text(estimates.title(made), written, lines, sections, made.missing)
    return Answer(answered.data, head=text.splitlines(), exit_code=answered.exit_code)


async def _reading(options: Namespace, read: Callable[[Reader, Namespace], Awaitable[ResultT]]) -> ResultT:
    async with command.connected(options) as api:
        with ProgressLine(sys.stderr) as progress:
            return await read(Reader(api, clock.utc_now(), progress.report), options)


async def read_nodes(reader: Reader, options: Namespace) -> ClusterNodes:
    """Read the nodes. Raises NotRead."""
    with reader.attempt("nodes"):
        listing = await objects.list_all(reader.api, resources.NODES, decode=pods.Node)
        allocatable, pools = {}, {}
        for node in listing.items:
            name = node.metadata.name
            with contextlib.suppress(quantities.InvalidQuantity):
                amounts = pods.allocatable(node)
                allocatable[name] = _sums(Amounts(amounts.get(names.CPU), amounts.get(names.MEMORY)))
                pools[name] = pool_of(allocatable[name], pods.label_map(node.metadata), options.pool_label)
        return ClusterNodes(reader.api.server, allocatable, pools)
    raise command.nothing_read(reader)


def pool_of(allocatable: GainSums, labels: Mapping[str, str], label: str | None) -> str:
    """Return the pool of a node: its label, else its size."""
    named = next((labels[key] for key in ((label,) if label else _POOL_LABELS) if key in labels), None)
    return named or f"{allocatable.cpu or 0:.0f} cores {(allocatable.memory or 0) / GIB:.0f} GiB"


async def now(reader: Reader, options: Namespace) -> Estimate:
    """Compare requests of Prod pods with the usage of the nodes at this moment. Raises NotRead."""
    cluster = await read_nodes(reader, options)
    requested = dict.fromkeys(cluster.pools, (0, 0))
    running = await reader.pods(None)
    if running is None:
        raise command.nothing_read(reader)
    for pod in running:
        if pod.band == "prod" and pod.node in requested:
            cpu, memory = requested[pod.node]
            requested[pod.node] = cpu + (pod.requests.cpu or 0), memory + (pod.requests.memory or 0)
    used, missing = await _used(reader)
    read, hot = [], []
    for name, pool in cluster.pools.items():
        allocatable, usage = cluster.allocatable[name], used.get(name, UNKNOWN)
        whole = _amounts(allocatable)
        if NodeState(name, whole, usage).above(scheduler_config.DEFAULT_LIMITS):
            hot.append(name)
        offered = _sums(Amounts(*map(_offered, whole, requested[name], usage)))
        read.append(NodeEstimate(name, pool, allocatable, _sums(Amounts(*requested[name])), _sums(usage), offered))
    return Estimate(
        cluster.server,
        by_pool(cluster),
        read,
        hot=sorted(hot),
        limits=HOT if used else "",
        prices=(options.cpu_price, options.memory_price),
        missing=missing,
        following=_FOLLOWING,
    )


def by_pool(cluster: ClusterNodes) -> dict[str, list[GainSums]]:
    """Return the allocatable of the nodes of each pool."""
    pools: dict[str, list[GainSums]] = {}
    for name, pool in cluster.pools.items():
        pools.setdefault(pool, []).append(cluster.allocatable[name])
    return pools


HOT: Final = " or ".join(f"{limit} % of {resource}" for resource, limit in scheduler_config.DEFAULT_LIMITS.items())


async def _used(reader: Reader) -> tuple[dict[str, Amounts], list[str]]:
    """Return the usage of nodes that metrics-server has, and what is missing."""
    try:
        items = (await objects.list_all(reader.api, _USAGE, decode=_NodeUsage)).items
    except errors.ApiServerError as error:
        return {}, [f"usage, so nothing is on offer: {error}; want metrics-server, or a Prometheus (--prometheus URL)"]
    used = {}
    for item in items:
        with contextlib.suppress(quantities.InvalidQuantity):
            amounts = pods.units(item.usage)
            used[item.metadata.name] = Amounts(amounts.get(names.CPU), amounts.get(names.MEMORY))
    return used, []


def _offered(allocatable: int | None, requested: int, used: int | None) -> int | None:
    """Return the Mid of the default configuration where the usage of the whole node is the peak of Prod."""
    if allocatable is None or used is None:
        return None
    default = controller_config.DEFAULTS
    terms = Terms(
        allocatable=allocatable, capacity=allocatable, allocated_prod=requested, peak_prod=used,
        unused=allocatable - used, reclaim_ratio_percent=default.mid_reclaim_ratio_percent,
        threshold_percent=default.mid_cpu_threshold_percent, unallocated_percent=default.mid_unallocated_percent,
    )  # fmt: skip
    return mid_resource.calculate(terms, has_floor=False).value


def _sums(amounts: Amounts) -> GainSums:
    return GainSums(None if amounts.cpu is None else amounts.cpu / 1000, amounts.memory)


def _amounts(sums: GainSums) -> Amounts:
    return Amounts(*(None if one is None else round(one * by) for one, by in zip(sums, (1000, 1), strict=True)))
