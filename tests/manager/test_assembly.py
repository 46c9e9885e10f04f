"""Whole reconciles of a node, over a cluster in memory."""

import re

import prometheus_client
import pytest

from manager import assembly, leader
from manager.cache.work_queue import Lane
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigStep
from tests.manager.conftest import allocated, amounts, worked_off
from tests.manager.in_process import posted


@pytest.fixture
async def parts(world):
    made = assembly.Components(world.api, ManagerSettings(workers=1), world.telemetry, clock=world.clock)
    world.cache = made.cache
    world.configure({"enable": True})
    world.add_node()
    await read_config(world, made)
    return made


async def read_config(world, parts):
    world.sync_config()
    await parts.config.work(ConfigStep.DECIDE)


async def reconcile(world, parts, times=1):
    for _ in range(times):
        world.sync_cache()
        await parts.reconciler.reconcile("n1")
        await worked_off(parts.spec_queue)
    await posted(parts.events)
    world.sync_cache()


async def test_reports_an_invalid_reservation_once_and_again_when_it_changes(world, parts):
    def annotate(text):
        world.server.patch("nodes", "n1", {"metadata": {"annotations": {"node.koordinator.sh/reservation": text}}})

    annotate("x")
    await reconcile(world, parts, times=3)
    assert world.events().count(("n1", "Warning", "ReservationIgnored")) == 1
    annotate('{"reservedCPUs": "4-2"}')
    await reconcile(world, parts, times=2)
    assert world.events().count(("n1", "Warning", "ReservationIgnored")) == 2
    annotate('{"reservedCPUs": "2-4"}')
    await reconcile(world, parts)
    assert world.events().count(("n1", "Warning", "ReservationIgnored")) == 2


async def test_a_node_is_urgent_until_its_withdrawal_is_written(world, parts):
    await reconcile(world, parts)
    assert not parts.reconciler.is_urgent("n1")
    world.report(allocated=allocated(mid_cpu=1), prodPeakMetric=amounts("2", "6k"))
    await reconcile(world, parts)
    assert world.mid_of() == (6_000, 10_000)
    assert not parts.reconciler.is_urgent("n1")
    world.configure({"enable": False})
    await read_config(world, parts)
    assert parts.reconciler.is_urgent("n1")
    await reconcile(world, parts)
    assert world.mid_of() == ()
    assert not parts.reconciler.is_urgent("n1")
    assert not parts.reconciler.is_urgent("unknown")


async def test_a_withdrawal_is_written_before_waiting_increases(world, parts):
    names = [f"n{number}" for number in range(1, 9)]
    for name in names[1:]:
        world.add_node(name, labels={"pool": name})
    world.sync_cache()
    for name in names:
        await parts.reconciler.reconcile(name)
    await worked_off(parts.spec_queue)
    world.report("n8", allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    world.sync_cache()
    await parts.reconciler.reconcile("n8")
    assert world.mid_of("n8") == (6_000, 10_000)
    for name in names[:-1]:
        world.report(name, allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    off = {"name": "off", "nodeSelector": {"matchLabels": {"pool": "n8"}}, "enable": False}
    world.configure({"enable": True, "nodeConfigs": [off]})
    world.sync_cache()
    await read_config(world, parts)  # adds all
    writes = len(world.server.writes)
    await worked_off(parts.queue)
    written = [path for _, path, _ in world.server.writes[writes:] if path.endswith("/status")]
    assert written[0] == "/api/v1/nodes/n8/status"
    assert len(written) == 8


async def test_the_evaluations_of_all_nodes_are_exported_and_end_with_the_node(world, parts):
    def shown():
        page = prometheus_client.generate_latest(world.telemetry.registry).decode()
        return dict(re.findall(r'koord_manager_evaluation_(\w+)\{predictor="max",resource="cpu"\} (\S+)', page))

    assert shown() == {}
    await reconcile(world, parts)
    entry = {
        "predictor": "max",
        "horizonSeconds": 3600,
        "cpu": {"forecasts": 4.0, "violationPercent": 25, "severityPercent": 5.5, "savingsPercent": 40.5},
    }
    world.report(prediction={"predictor": "percentile", "evaluation": [entry]})
    world.sync_cache()
    assert shown() == {"nodes": "1.0", "forecasts": "4.0", "violations_ratio": "0.25", "savings_ratio": "0.405"}
    world.report(prediction={"evaluation": None})
    world.sync_cache()
    assert shown() == {}


async def test_a_right_to_evict_that_is_granted_changes_the_predictor_of_each_node(world, parts):
    """The calibrated peak alone is for managers that can evict; the agents of others take the larger of two."""
    alone = {"nodePredictPolicy": {"predictor": "calibrated"}, "midEviction": {"mode": "evict"}}
    world.configure({"enable": True, **alone})
    world.add_node("n2")
    await read_config(world, parts)
    await reconcile(world, parts)
    await parts.reconciler.reconcile("n2")
    await worked_off(parts.spec_queue)

    def predictors():
        specs = [world.server.get("nodemetrics", name)["spec"] for name in ("n1", "n2")]
        return [spec["predictPolicy"]["predictor"] for spec in specs]

    assert predictors() == ["max", "max"]
    world.server.may_evict = {""}
    await parts.evictor.check_rights()
    await worked_off(parts.spec_queue)
    assert predictors() == ["calibrated", "calibrated"]


async def test_reads_an_edit_of_the_configuration_that_no_watch_delivered(world, parts):
    world.configure({"enable": False})
    world.sync_cache()
    await leader.read(world.api, ManagerSettings(workers=1), parts.cache.config_maps)
    parts.add_everything()
    await worked_off(parts.config_queue)
    assert parts.config.strategies.configuration.cluster.enable is False
    assert parts.queue.depth(Lane.NORMAL) == 1
