"""The CRD is checked every period, also after a failure."""

import asyncio

import pytest

from manager.node_metric import crd_schema
from tests.fakes import apiserver
from tests.manager.node_metric.test_crd_schema import events, without


async def test_checks_again_after_each_period_and_after_an_error(world, caplog, monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        match len(pauses):
            case 1:
                world.server.add("customresourcedefinitions", without("status.prediction"))
                monkeypatch.setattr(world.server, "_openapi", lambda _path: apiserver.status(503, "ServiceUnavailable"))
            case 2:
                assert "cannot read CRD nodemetrics.slo.koordinator.sh" in caplog.text
                assert events(world) == []
                monkeypatch.undo()
            case 3:
                raise asyncio.CancelledError

    changes = []
    watch = crd_schema.SchemaWatch(
        world.api, world.recorder, world.telemetry, sleep, on_change=lambda: changes.append(len(pauses))
    )
    with pytest.raises(asyncio.CancelledError):
        await watch.run(300.0)
    assert pauses == [300.0] * 3
    assert [reason for reason, _ in events(world)] == ["NodeMetricFieldsDropped"]
    assert len(changes) == 1
