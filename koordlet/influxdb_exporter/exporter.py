"""Exporter to InfluxDB as the agent uses it: queues the newest means and the newest prediction every few seconds.

Points are named as in docs/how-to/influxdb.md. Tags are node, kind, predictor, resource, namespace and pod, which
bounds the cardinality. UIDs and container ids, which are always new, are not tags.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver_client.backoff import Backoff
from koordlet.cluster.pods import PodOnNode
from koordlet.influxdb_exporter.writer import PointQueue, Writer
from koordlet.metric_cache import series
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import Record
from koordlet.prediction.peaks import NodePeak
from koordlet.prediction.server import Prediction
from koordlet.samples import NODE, SYSTEM, Resource, SeriesKey, SeriesKind, UsageSample
from koordlet.settings import KoordletSettings

USAGE: Final = "koordlet_usage"
POD_USAGE: Final = "koordlet_pod_usage"
PROD_PREDICTION: Final = "koordlet_prod_prediction"
NODE_PREDICTION: Final = "koordlet_node_prediction"
EVALUATION: Final = "koordlet_evaluation"

_KIND_OF_SERIES: Final = {
    NODE: "node",
    SYSTEM: "system",
    **{
        SeriesKey(SeriesKind.CLASS, priority_class): priority_class.removeprefix("koord-")
        for priority_class in series.CLASSES
    },
}

_MEASUREMENT = str.maketrans({",": r"\,", " ": r"\ ", "\n": r"\n"})
_BACKSLASH = "\\"
_KEY_OR_TAG = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ ", "\n": r"\n"})


def line(measurement: str, tags: Mapping[str, str], fields: Mapping[str, float], at_seconds: int) -> str | None:
    """Return one point in line protocol, `measurement,tag=value field=1.5 1700000000`; None without any field value.

    `at_seconds` is Unix time. Tags keep the given order (InfluxDB is fastest with tags sorted by key). Tags without a
    value and fields that are not finite are left out, because line protocol cannot express them. All fields are
    floats: the first write fixes the type of a field in a bucket, and later points of another type are refused (422).
    """
    values = ",".join(f"{key}={float(value)!r}" for key, value in fields.items() if math.isfinite(value))
    if not values:
        return None
    # a trailing backslash would escape the separator, so it is dropped
    labels = "".join(f",{key}={text.rstrip(_BACKSLASH).translate(_KEY_OR_TAG)}" for key, text in tags.items() if text)
    return f"{measurement.translate(_MEASUREMENT)}{labels} {values} {at_seconds:d}"


def usage(
    node_name: str, at_seconds: int, means: Mapping[SeriesKey, UsageSample], pods: Mapping[str, PodOnNode]
) -> list[str]:
    """Return the mean usage of node, system, classes and pods, one line each.

    `pods` is keyed by the UID in the names of the cgroups. A pod that is not listed yet is left out; the node and, as
    Prod, the classes contain it.
    """
    lines = []
    for key, mean in means.items():
        measurement, tags = USAGE, {"kind": _KIND_OF_SERIES.get(key, ""), "node": node_name}
        if key.kind is SeriesKind.POD and (pod := pods.get(key.identity)) is not None:
            kind = series.counted_class(pod.priority_class).removeprefix("koord-")
            measurement = POD_USAGE
            tags = {"kind": kind, "namespace": pod.namespace, "node": node_name, "pod": pod.name}
        if not tags["kind"]:
            continue
        fields = {"cpu_cores": mean.cpu_cores, "memory_bytes": mean.memory_bytes}
        if (written := line(measurement, tags, fields, at_seconds)) is not None:
            lines.append(written)
    return lines


def predicted(node_name: str, at_seconds: int, prediction: Prediction) -> list[str]:
    """Return the lines of a prediction: peak, requests, reclaimable of Prod; mean, deviation, peak of the node."""
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
        line(PROD_PREDICTION, tags, prod, at_seconds),
        line(NODE_PREDICTION, {"node": node_name}, _node_fields(node), at_seconds) if node else None,
    ]
    return [point for point in lines if point is not None]


def evaluation(node_name: str, at_seconds: int, records: Mapping[str, Record]) -> list[str]:
    """Return the scores of the live evaluation, one line for each predictor and resource."""
    lines = [
        line(
            EVALUATION,
            {"node": node_name, "predictor": name, "resource": resource},
            {
                "forecasts": scores.forecasts,
                "violations_ratio": scores.violation_ratio,
                "severity_ratio": math.nan if scores.severity_ratio is None else scores.severity_ratio,
                "savings_ratio": scores.savings_ratio,
            },
            at_seconds,
        )
        for name, record in records.items()
        for resource, scores in record.scores.items()
    ]
    return [point for point in lines if point is not None]


def _amounts(name: str, amounts: WholeAmounts) -> dict[str, float]:
    return {f"{name}_cpu_cores": amounts.cpu_millis / 1000, f"{name}_memory_bytes": amounts.memory_bytes}


def _node_fields(node: Mapping[Resource, NodePeak]) -> dict[str, float]:
    return {
        f"{name}_{unit}": getattr(node[resource], name)
        for name in ("mean", "stdev", "peak")
        for resource, unit in ((Resource.CPU, "cpu_cores"), (Resource.MEMORY, "memory_bytes"))
    }


_BACKOFF = Backoff(first_seconds=1.0, longest_seconds=60.0)


class InfluxDbExporter:
    """Makes points and queues them without waiting for the server. One thread exports.

    `first_seconds` is the monotonic time of the first export. A random value spreads the agents of a cluster.
    """

    def __init__(
        self, node_name: str, queue: PointQueue, writer: Writer, *, interval_seconds: int, first_seconds: float
    ) -> None:
        self.interval_seconds = interval_seconds
        self.queue = queue
        self.writer = writer
        self._node_name = node_name
        self._due_seconds = first_seconds
        self._exported: Prediction | None = None

    def is_due(self, monotonic_seconds: float) -> bool:
        """Return whether the interval has passed, and then begin the next one, in step with the first."""
        if monotonic_seconds < self._due_seconds:
            return False
        missed, _ = divmod(monotonic_seconds - self._due_seconds, self.interval_seconds)
        self._due_seconds += (missed + 1) * self.interval_seconds
        return True

    def export(
        self,
        now_seconds: float,
        means: Mapping[SeriesKey, UsageSample],
        pods: Mapping[str, PodOnNode],
        prediction: Prediction | None,
        evaluated: Mapping[str, Record] = MappingProxyType({}),
    ) -> None:
        """Queue the means of the last interval, the scores, and the prediction unless it was queued before.

        `now_seconds` is Unix time; points carry whole seconds. `pods` is keyed by the UID in the names of the cgroups,
        `evaluated` by predictor.
        """
        at_seconds = int(now_seconds)
        lines = usage(self._node_name, at_seconds, means, pods)
        if prediction is not None and prediction is not self._exported:
            lines += predicted(self._node_name, at_seconds, prediction)
        self._exported = prediction
        lines += evaluation(self._node_name, at_seconds, evaluated)
        self.queue.add(lines)
        self.writer.wake()


def start(settings: KoordletSettings) -> InfluxDbExporter | None:
    """Start the exporter with its thread, None where `influxdb-url` is empty. Import influxdb-client only if needed."""
    if not settings.influxdb_url:
        return None
    from koordlet.influxdb_exporter import client  # noqa: PLC0415  # 13 MiB and 0.2 s, paid only where it is used

    target = client.InfluxDbTarget(
        settings.influxdb_url,
        settings.influxdb_org,
        settings.influxdb_bucket,
        settings.influxdb_token_file,
        settings.influxdb_ca_file,
    )
    queue = PointQueue(settings.influxdb_queue_points)
    writer = Writer(
        queue,
        client.InfluxDb(target),
        batch_points=settings.influxdb_batch_points,
        timeout_ms=round(settings.influxdb_timeout_seconds * 1000),
        backoff=_BACKOFF,
    )
    writer.start()
    interval = settings.influxdb_interval_seconds
    return InfluxDbExporter(
        settings.node_name,
        queue,
        writer,
        interval_seconds=interval,
        first_seconds=time.monotonic() + interval * random.random(),  # noqa: S311  # spreads load, hides nothing
    )
