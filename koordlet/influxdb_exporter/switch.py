"""Whether there is a history: the settings -> a running recorder, or none and not a byte of influxdb-client loaded."""

from __future__ import annotations

import random
import time

from apiserver_client.backoff import Backoff
from koordlet.influxdb_exporter.exporter import HistoryRecorder
from koordlet.influxdb_exporter.queue import PointQueue
from koordlet.influxdb_exporter.writer import Writer
from koordlet.settings import KoordletSettings

_BACKOFF = Backoff(first_seconds=1.0, longest_seconds=60.0)


def start(settings: KoordletSettings) -> HistoryRecorder | None:
    """A recorder with its thread running; None where `influxdb-url` is empty."""
    if not settings.influxdb_url:
        return None
    from koordlet.influxdb_exporter import client  # noqa: PLC0415  # 13 MiB and 0.2 s that only those pay who want it

    target = client.Target(
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
    return HistoryRecorder(
        settings.node_name,
        queue,
        writer,
        interval_seconds=interval,
        first_seconds=time.monotonic() + interval * random.random(),  # noqa: S311  # spreads load, hides nothing
    )
