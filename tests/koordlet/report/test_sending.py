import json

import pytest

from api_types.node_metric import types as node_metric
from koordlet.report import sending
from tests.fakes import apiserver

ALLOCATABLE = {"cpu": 10_000, "memory": 10 << 30}


@pytest.mark.parametrize(
    ("old", "new", "due"),
    [
        (1000, 1050, False),  # exactly 5 %
        (1000, 1051, True),
        (1000, 949, True),
        (10, 15, False),  # 5 m of 10 cores: relative to 1 % of allocatable, 100 m, it is exactly 5 %
        (10, 16, True),
        (0, 5, False),
    ],
)
def test_a_change_beyond_the_threshold_has_moved(old, new, due):
    published = {"cpu": old, "memory": 1 << 30}
    assert sending.moved({"cpu": new, "memory": 1 << 30}, published, ALLOCATABLE, 5) is due


def test_a_prediction_that_appears_or_vanishes_is_news():
    nothing = sending.Published(None, None)
    something = sending.Published({"cpu": 1, "memory": 1}, {"cpu": 1, "memory": 1})
    assert sending.has_moved(something, nothing, ALLOCATABLE, 5)
    assert sending.has_moved(nothing, something, ALLOCATABLE, 5)
    assert not sending.has_moved(nothing, nothing, ALLOCATABLE, 5)


def test_a_shortened_interval_applies_from_the_next_check():
    timer = sending.ReportSchedule()
    timer.written(0.0, 600, uniform=0.0)
    timer.checked(20.0, 20, 600)
    assert not timer.is_due(30.0)
    timer.checked(40.0, 20, 30)
    assert timer.is_due(40.0)


def test_the_first_report_is_due_at_once_and_the_next_after_the_interval():
    timer = sending.ReportSchedule()
    assert timer.is_check_due(0.0)
    assert timer.is_due(0.0)
    timer.checked(0.0, 20, 60)
    timer.written(0.0, 60, uniform=0.0)
    assert not timer.is_due(59.9)
    assert timer.is_due(60.0)


def test_changes_are_checked_every_check_interval():
    timer = sending.ReportSchedule()
    timer.checked(0.0, 20, 60)
    timer.written(0.0, 60, uniform=0.0)
    assert [timer.is_check_due(now) for now in (10.0, 19.9, 20.0)] == [False, False, True]
    timer.checked(20.0, 20, 60)
    assert not timer.is_check_due(21.0)
    assert timer.is_check_due(60.0)


def test_after_a_start_and_a_failure_a_report_comes_up_to_a_tenth_early_and_never_late():
    timer = sending.ReportSchedule()
    timer.written(0.0, 60, uniform=1.0)
    assert not timer.is_due(53.9)
    assert timer.is_due(54.0)
    timer.failed(54.0, pause_seconds=6.0)
    timer.written(60.0, 60, uniform=1.0)
    assert not timer.is_due(113.9)
    assert timer.is_due(114.0)


def test_a_quiet_node_then_writes_no_more_often_than_once_an_interval():
    timer = sending.ReportSchedule()
    timer.written(0.0, 60, uniform=1.0)
    for at in (54.0, 114.0, 174.0):
        assert timer.is_due(at)
        timer.written(at, 60, uniform=1.0)
        assert not timer.is_due(at + 59.9)


def test_writes_are_five_seconds_apart_whatever_the_check_interval():
    timer = sending.ReportSchedule()
    timer.checked(0.0, 1, 60)
    timer.written(0.0, 60, uniform=0.0)
    assert [timer.is_check_due(now) for now in (1.0, 4.9, 5.0)] == [False, False, True]


def test_after_a_failure_the_pause_is_kept_though_the_report_is_due():
    timer = sending.ReportSchedule()
    timer.checked(0.0, 20, 60)
    timer.failed(0.0, pause_seconds=12.0)
    assert timer.is_due(1.0)
    assert [timer.is_check_due(now) for now in (11.9, 12.0)] == [False, True]


PATH = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1"
STATUS = node_metric.NodeMetricStatus(observed_generation=4)


def stored(version):
    return apiserver.Answer({"metadata": {"name": "n1", "resourceVersion": version}})


def refused(code, reason):
    details = {"name": "n1", "group": "slo.koordinator.sh", "kind": "nodemetrics"}
    status = {"kind": "Status", "code": code, "reason": reason, "message": "the message", "details": details}
    return apiserver.Answer(status, code)


async def send(server, version="7"):
    async with server.session() as api:
        return await sending.send(api, "n1", STATUS, version)


async def test_a_report_replaces_the_status_over_the_version_that_was_seen():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", stored("8"))
        sent = await send(server)
        put = server.asked("PUT")[0].document
    assert sent == sending.Sent(sending.Outcome.WRITTEN, "8")
    assert put["metadata"] == {"name": "n1", "resourceVersion": "7"}
    assert put["status"] == {"observedGeneration": 4}


async def test_after_a_conflict_the_report_goes_over_the_newest_version():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", refused(409, "Conflict"), stored("10"))
        server.on("GET", PATH, stored("9"))
        sent = await send(server)
        versions = [json.loads(put.body)["metadata"]["resourceVersion"] for put in server.asked("PUT")]
    assert sent.outcome is sending.Outcome.WRITTEN
    assert versions == ["7", "9"]


async def test_a_node_metric_that_is_gone_is_no_failure_of_the_apiserver():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", refused(404, "NotFound"))
        assert (await send(server)).outcome is sending.Outcome.NO_NODE_METRIC


async def test_a_refusal_carries_the_message_of_the_apiserver():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", refused(403, "Forbidden"))
        sent = await send(server)
    assert sent.outcome is sending.Outcome.REFUSED
    assert "the message" in (sent.problem or "")


async def test_an_apiserver_that_is_away_is_unreachable():
    async with apiserver.running() as server:
        pass
    assert (await send(server)).outcome is sending.Outcome.UNREACHABLE


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_the_time_that_the_apiserver_asks_to_wait_is_passed_on(code, method):
    throttled = apiserver.status(code, "TooManyRequests", retry_after="17", name="n1")
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", throttled if method == "PUT" else refused(409, "Conflict"))
        server.on("GET", PATH, throttled)
        sent = await send(server)
    assert (sent.outcome, sent.retry_after_seconds) == (sending.Outcome.REFUSED, 17.0)
