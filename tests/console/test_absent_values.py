"""What the pages, probes and metrics show before the first read, and of fields that an agent leaves out."""

import msgspec
import prometheus_client

from console.cluster.details import NodeDetail
from console.cluster.wire import DetailedReport
from console.metrics import ConsoleCollector
from tests.console import browsers, fleets


async def test_a_prediction_without_counts_of_pods_has_none():
    report = msgspec.convert({"prediction": {"predictor": "max"}}, DetailedReport)
    asgi, _ = browsers.app(fleets.seen(fleets.nodes(1)), {("node",): NodeDetail(report=report)})
    async with browsers.client(asgi) as client:
        page = await client.get("/nodes/worker-0001")
    assert "max: 0 Prod pods from their history, 0 by their requests." in page.text


def test_before_the_first_read_every_metric_is_zero():
    registry = prometheus_client.CollectorRegistry()
    ConsoleCollector(registry)
    values = {sample.name: sample.value for family in registry.collect() for sample in family.samples}
    assert values == dict.fromkeys(
        (
            "koord_console_snapshot_timestamp_seconds",
            "koord_console_snapshot_nodes",
            "koord_console_read_duration_seconds",
            "koord_console_read_failed",
        ),
        0.0,
    )
