import json

import pytest

from api_types.node_metric import types as node_metric
from koordlet.report import writer
from tests.fakes import apiserver

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
        return await writer.send(api, "n1", STATUS, version)


async def test_a_report_replaces_the_status_over_the_version_that_was_seen():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", stored("8"))
        sent = await send(server)
        put = server.asked("PUT")[0].document
    assert sent == writer.Sent(writer.Outcome.WRITTEN, "8")
    assert put["metadata"] == {"name": "n1", "resourceVersion": "7"}
    assert put["status"] == {"observedGeneration": 4}


async def test_after_a_conflict_the_report_goes_over_the_newest_version():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", refused(409, "Conflict"), stored("10"))
        server.on("GET", PATH, stored("9"))
        sent = await send(server)
        versions = [json.loads(put.body)["metadata"]["resourceVersion"] for put in server.asked("PUT")]
    assert sent.outcome is writer.Outcome.WRITTEN
    assert versions == ["7", "9"]


async def test_a_node_metric_that_is_gone_is_no_failure_of_the_apiserver():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", refused(404, "NotFound"))
        assert (await send(server)).outcome is writer.Outcome.NO_NODE_METRIC


async def test_a_refusal_carries_the_message_of_the_apiserver():
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", refused(403, "Forbidden"))
        sent = await send(server)
    assert sent.outcome is writer.Outcome.REFUSED
    assert "the message" in (sent.problem or "")


async def test_an_apiserver_that_is_away_is_unreachable():
    async with apiserver.running() as server:
        pass
    assert (await send(server)).outcome is writer.Outcome.UNREACHABLE


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_the_time_that_the_apiserver_asks_to_wait_is_passed_on(code, method):
    throttled = apiserver.status(code, "TooManyRequests", retry_after="17", name="n1")
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", throttled if method == "PUT" else refused(409, "Conflict"))
        server.on("GET", PATH, throttled)
        sent = await send(server)
    assert (sent.outcome, sent.retry_after_seconds) == (writer.Outcome.REFUSED, 17.0)
