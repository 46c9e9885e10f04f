"""What is known of a node at one moment -> the points of its history (named in docs/how-to/influxdb.md). Pure.

Cardinality is bounded by what the cluster names: node, kind, predictor, namespace and pod. UIDs and container ids, of
which there are ever new ones, are no tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from koordlet.cluster.pods import PodOnNode
from koordlet.influxdb_exporter import line_protocol
from koordlet.metric_cache import series
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.peaks import NodePeak
from koordlet.prediction.server import Prediction
from koordlet.samples import NODE, SYSTEM, Resource, SeriesKey, SeriesKind, UsageSample

USAGE: Final = "koordlet_usage"
POD_USAGE: Final = "koordlet_pod_usage"
PROD_PREDICTION: Final = "koordlet_prod_prediction"
NODE_PREDICTION: Final = "koordlet_node_prediction"

_KIND_OF_SERIES: Final = {
    NODE: "node",
    SYSTEM: "system",
    **{SeriesKey(SeriesKind.CLASS, known): known.removeprefix("koord-") for known in series.CLASSES},
}


def usage(
    node_name: str, at_seconds: int, means: Mapping[SeriesKey, UsageSample], pods: Mapping[str, PodOnNode]
) -> list[str]:
    """Mean usage of node, system, classes and pods, a line each.

    `pods` is keyed by the UID in the names of the cgroups. A pod that the apiserver has not named yet is left out; the
    node and, as Prod, the classes contain it.
    """
    return list(_usage(node_name, at_seconds, means, pods))


def _usage(
    node_name: str, at_seconds: int, means: Mapping[SeriesKey, UsageSample], pods: Mapping[str, PodOnNode]
) -> Iterator[str]:
    for key, mean in means.items():
        measurement, tags = USAGE, {"kind": _KIND_OF_SERIES.get(key, ""), "node": node_name}
        if key.kind is SeriesKind.POD and (pod := pods.get(key.identity)) is not None:
            kind = series.counted_class(pod.priority_class).removeprefix("koord-")
            measurement = POD_USAGE
            tags = {"kind": kind, "namespace": pod.namespace, "node": node_name, "pod": pod.name}
        if not tags["kind"]:
            continue
        fields = {"cpu_cores": mean.cpu_cores, "memory_bytes": mean.memory_bytes}
        if (line := line_protocol.line(measurement, tags, fields, at_seconds)) is not None:
            yield line


def predicted(node_name: str, at_seconds: int, prediction: Prediction) -> list[str]:
    """One prediction: peak, requests and reclaimable of Prod; mean, deviation and peak of the node where known."""
    prod = {
        **_amounts("peak", prediction.prod_peak),
        **_amounts("allocated", prediction.prod_allocated),
        **_amounts("reclaimable", prediction.prod_reclaimable),
        "warm_pods": prediction.warm_pods,
        "cold_pods": prediction.cold_pods,
    }
    tags = {"node": node_name, "predictor": prediction.parameters.predictor}
    node = prediction.node
    lines = [
        line_protocol.line(PROD_PREDICTION, tags, prod, at_seconds),
        line_protocol.line(NODE_PREDICTION, {"node": node_name}, _of_node(node), at_seconds) if node else None,
    ]
    return [line for line in lines if line is not None]


def _amounts(name: str, amounts: WholeAmounts) -> dict[str, float]:
    return {f"{name}_cpu_cores": amounts.cpu_millis / 1000, f"{name}_memory_bytes": amounts.memory_bytes}


def _of_node(node: Mapping[Resource, NodePeak]) -> dict[str, float]:
    terms: dict[str, Callable[[NodePeak], float]] = {
        "mean": lambda each: each.mean,
        "stdev": lambda each: each.stdev,
        "peak": lambda each: each.peak,
    }
    return {
        f"{name}_{unit}": read(node[resource])
        for name, read in terms.items()
        for resource, unit in ((Resource.CPU, "cpu_cores"), (Resource.MEMORY, "memory_bytes"))
    }
