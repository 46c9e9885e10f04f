"""Events of an object: their content, and the count of repeated ones."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from apiserver_client import cluster_events, errors, resources
from tests.fakes import apiserver

CONFIG = cluster_events.Subject(resources.CONFIG_MAPS, "slo-controller-config", "u1", "koordinator-system", "12")
NOON = datetime(2026, 10, 21, 12, 0, 0, 999, tzinfo=UTC)


def event(subject=CONFIG, message="bad key", now=NOON):
    return cluster_events.body(
        subject, severity="Warning", reason="InvalidConfig", message=message, reporter="koord-manager", now=now
    )


def test_an_event_is_in_the_namespace_of_its_object():
    made = event()
    assert made["metadata"]["namespace"] == "koordinator-system"
    assert made["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "slo-controller-config",
        "namespace": "koordinator-system",
        "uid": "u1",
        "resourceVersion": "12",
    }
    assert (made["firstTimestamp"], made["lastTimestamp"], made["count"]) == ("2026-10-21T12:00:00Z",) * 2 + (1,)


def test_an_event_of_a_cluster_wide_object_is_in_default():
    made = event(cluster_events.Subject(resources.NODES, "n1", "u2"))
    assert made["metadata"]["namespace"] == "default"
    assert "namespace" not in made["involvedObject"]


@pytest.mark.parametrize("cut", "-.")
def test_the_name_of_an_event_of_a_long_name_is_one_that_the_apiserver_accepts(cut):
    made = event(cluster_events.Subject(resources.PODS, "a" * 199 + cut + "b" * 40, "u3", "default"))
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", made["metadata"]["name"])


def test_equal_events_have_equal_names():
    assert event()["metadata"] == event(now=NOON + timedelta(hours=1))["metadata"]
    assert event()["metadata"] != event(message="another")["metadata"]


def test_truncates_a_long_message_to_the_limit_of_the_apiserver():
    message = event(message="x" * 5000)["message"]
    assert len(message) == 1024
    assert message.endswith("x…")


@pytest.mark.parametrize(("known", "count"), [({"count": 4}, 5), ({"count": 1}, 2), ({"count": None}, 2), ({}, 2)])
async def test_a_repeated_event_raises_the_count(server, known, count):
    made = event()
    collection = "/api/v1/namespaces/koordinator-system/events"
    stored = f"{collection}/{made['metadata']['name']}"
    server.on("POST", collection, apiserver.Answer(made, 201), apiserver.status(409, "AlreadyExists"))
    server.on("GET", stored, apiserver.Answer({"metadata": made["metadata"], **known}))
    server.on("PATCH", stored, apiserver.Answer(made))
    async with server.session() as api:
        await cluster_events.record(api, made)
        assert [it.method for it in server.requests] == ["POST"]
        await cluster_events.record(api, event(now=NOON + timedelta(minutes=5)))
    assert server.requests[-1].document == {"count": count, "lastTimestamp": "2026-10-21T12:05:00Z"}


async def test_raises_when_the_event_is_refused(server):
    server.on("POST", "/api/v1/namespaces/koordinator-system/events", apiserver.status(403, "Forbidden"))
    async with server.session() as api:
        with pytest.raises(errors.Forbidden):
            await cluster_events.record(api, event())
