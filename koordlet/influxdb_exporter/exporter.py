"""Exporter to InfluxDB as the agent uses it: queues the newest means and the newest prediction every few seconds."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from types import MappingProxyType

from apiserver_client.backoff import Backoff
from koordlet.cluster.pods import PodOnNode
from koordlet.influxdb_exporter import points
from koordlet.influxdb_exporter.queue import PointQueue
from koordlet.influxdb_exporter.writer import Writer
from koordlet.prediction.evaluation_scores import Record
from koordlet.prediction.server import Prediction
from koordlet.samples import SeriesKey, UsageSample
from koordlet.settings import KoordletSettings

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
        lines = points.usage(self._node_name, at_seconds, means, pods)
        if prediction is not None and prediction is not self._exported:
            lines += points.predicted(self._node_name, at_seconds, prediction)
        self._exported = prediction
        lines += points.evaluated(self._node_name, at_seconds, evaluated)
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
        timeout_ms=settings.influxdb_timeout_ms,
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
