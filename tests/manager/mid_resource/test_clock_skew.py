"""A clock that is slow or fast is named by the apiserver's time of the report, and makes no sample younger."""

import datetime as dt

import pytest

from manager.cache import store
from manager.mid_resource import decision
from tests.manager.conftest import allocated, amounts

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def stamp(seconds):
    return (NOON + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def metric(sample, *written, subresource="status"):
    fields = [
        {"manager": "koordlet", "operation": "Update", "subresource": subresource, "time": time} for time in written
    ]
    metadata = {"name": "n1", "resourceVersion": "7", "managedFields": fields}
    return store.ClusterStore().node_metrics.decode({"metadata": metadata, "status": {"updateTime": sample}})


@pytest.mark.parametrize(
    ("ahead", "fault"),
    [
        (-960, "the clock of the node is 960 s slow"),
        (-61, "the clock of the node is 61 s slow"),
        (-60, ""),
        (-3, ""),
        (0, ""),
        (60, ""),
        (90, "the clock of the node is 90 s fast"),
    ],
)
def test_the_apiservers_time_of_the_report_shows_a_wrong_clock(ahead, fault):
    assert decision.clock_fault(metric(stamp(ahead), stamp(0))) == fault


def test_the_nearest_write_of_the_status_counts():
    assert decision.clock_fault(metric(stamp(0), stamp(3600), stamp(2), stamp(-3600))) == ""


@pytest.mark.parametrize(
    "unknown",
    [
        metric(stamp(0)),
        metric(stamp(0), None),
        metric(stamp(0), "noon"),
        metric(stamp(0), stamp(3600), subresource=""),
        metric(None, stamp(0)),
        metric("noon", stamp(0)),
    ],
)
def test_a_clock_that_cannot_be_compared_is_not_wrong(unknown):
    assert decision.clock_fault(unknown) == ""


async def reports(world, seconds_ahead):
    """Let the node report by a clock that is ahead of the apiserver's, negative for behind."""
    world.now += dt.timedelta(minutes=1)
    time = world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = [{"manager": "koordlet", "operation": "Update", "subresource": "status", "time": time}]
    world.server.patch("nodemetrics", "n1", {"metadata": {"managedFields": fields}})
    world.report(seconds_ago=-seconds_ahead, allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    await world.settle()


def clock_events(world):
    return [item["message"] for item in world.server.all("events") if item["reason"] == "NodeClockWrong"]


def wrong_clock(world):
    return world.telemetry.registry.get_sample_value("koord_manager_node_clock_wrong", {"node": "n1"})


@pytest.fixture
async def node(world):
    world.configure({"enable": True})
    await world.config.start()
    world.server.now -= dt.timedelta(hours=1)
    world.add_node()
    await world.settle()
    return world


async def test_a_slow_clock_is_named_where_it_makes_samples_too_old(node):
    await reports(node, 0)
    assert (clock_events(node), wrong_clock(node)) == ([], None)
    for _ in range(3):
        await reports(node, -16 * 60)
    assert node.mid_of() == (), "a slow clock makes no sample younger"
    assert node.mid_status()["reason"] == "SampleTooOld"
    assert node.mid_status()["detail"].endswith("; the clock of the node is 960 s slow")
    [message] = clock_events(node)
    assert message.startswith("the clock of the node is 960 s slow by the apiserver's time of its report, want at most")
    assert wrong_clock(node) == 1
    await reports(node, 0)
    assert (node.mid_of()[0], wrong_clock(node)) == (6000, None)
    await reports(node, -120)
    assert node.mid_of()[0] == 6000, "a sample that is young enough counts"
    assert len(clock_events(node)) == 2


async def test_a_fast_clock_is_named_where_it_makes_reports_refused(node):
    await reports(node, 0)
    await reports(node, 20 * 60)
    assert "the clock of the node is 1200 s fast" in clock_events(node)[0]
    events = [item["message"] for item in node.server.all("events") if item["reason"] == "ReportRefused"]
    assert all("1200 s fast" in message for message in events)
    assert events


async def test_the_series_of_a_node_goes_with_it(node):
    await reports(node, -300)
    assert wrong_clock(node) == 1
    node.mid.forget("n1")
    assert wrong_clock(node) is None
