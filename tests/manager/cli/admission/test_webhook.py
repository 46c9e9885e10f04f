"""What the handler changes; e2e/cases/admission/test_mid_limits_webhook.py runs it below an API server."""

import asyncio
import contextlib
import functools
import http.client
import json
import threading
import urllib.parse

import kopf
import pytest
from kopf._cogs.structs import references
from kopf._core.engines import admission
from kopf._core.reactor import inventory

from manager.cli.admission import webhook
from manager.cli.admission.settings import AdmissionSettings

PLAIN = {"cpu": "500m", "memory": "64Mi"}

UID = b"0b5f1f2e-6d3f-4a55-9c4c-0d5a3b1c2d3e"


def pod(*containers, **spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"priorityClassName": "koord-mid", "containers": list(containers), **spec},
    }


WORK = {"name": "work", "resources": {"requests": PLAIN, "limits": PLAIN}}


def test_only_changed_fields_are_in_the_patch():
    given = pod(WORK, initContainers=[{"name": "i"}], schedulerName="volcano", nodeSelector={"a": "b"})
    (operation,), warnings = webhook.limits(given, "koord-scheduler")
    assert (operation["op"], operation["path"]) == ("add", "/spec/containers/0/resources")
    assert operation["value"]["requests"]["cpu"] == "0"
    assert [text.partition(" has no")[0] for text in warnings] == ["koord-mid: container i"]
    limited = pod({**WORK, "resources": operation["value"]}, schedulerName="volcano")
    assert webhook.limits(limited, "koord-scheduler") == ([], [])


def test_the_scheduler_is_replaced_by_the_setting():
    def changed(name):
        operations, _ = webhook.limits(pod(WORK), name)
        return {each["path"]: each["value"] for each in operations}.get("/spec/schedulerName")

    assert changed("mine") == "mine"
    assert changed("") is None


@pytest.mark.parametrize("spec", [{"resources": {"limits": PLAIN}}, {"containers": 3}])
def test_what_is_refused_passes_with_a_warning(spec):
    operations, (warning,) = webhook.limits(pod(WORK, **spec), "koord-scheduler")
    assert operations == []
    assert warning.startswith("this koord-mid pod gets no limits: spec.")


@pytest.mark.parametrize(
    "given", [{}, {"spec": None}, {"spec": {"priorityClassName": "koord-prod", "containers": [WORK]}}]
)
def test_other_pods_pass_as_they_are(given):
    assert webhook.limits(given, "koord-scheduler") == ([], [])


async def test_an_error_of_the_webhook_refuses_no_pod(monkeypatch, caplog):
    """kopf answers an exception of a handler with a refusal, which failurePolicy Ignore does not cover."""
    monkeypatch.setattr(webhook, "limits", lambda *_, **__: 1 / 0)
    (handler,) = webhook.registry(None, AdmissionSettings(), None)._webhooks.get_all_handlers()
    patch, warnings = kopf.Patch(), []
    await handler.fn(body=kopf.Body(pod(WORK)), patch=patch, warnings=warnings)
    assert patch.as_json_patch() == []
    assert warnings == ["this koord-mid pod gets no limits: the webhook failed; its log has the error"]
    assert "ZeroDivisionError" in caplog.text


def of_kopf():
    """Return what answers a review, and its memories."""
    insights = references.Insights()
    pods = {"group": "", "version": "v1", "plural": "pods", "kind": "Pod", "singular": "pod", "namespaced": True}
    insights.webhook_resources.add(references.Resource(**pods, verbs=frozenset()))
    memories = inventory.ResourceMemories()
    answers = functools.partial(
        admission.serve_admission_request,
        settings=kopf.OperatorSettings(),
        memories=memories,
        memobase=kopf.Memo(),
        registry=webhook.registry(None, AdmissionSettings(), None),
        insights=insights,
        indices={},
    )
    return answers, memories


def review_of(operation="CREATE", *, uid="7", **metadata):
    resource = {"group": "", "version": "v1", "resource": "pods"}
    of_pod = {**pod(WORK), "metadata": metadata}
    return {"request": {"uid": uid, "resource": resource, "operation": operation, "userInfo": {}, "object": of_pod}}


async def remembered(operation):
    """Send reviews of three pods through kopf; return its newest answer, and how many pods it remembers."""
    (answers, memories), answer = of_kopf(), None
    for uid in ("a", "b", "c"):
        with contextlib.suppress(json.JSONDecodeError):
            answer = await webhook.creations_only(answers, review_of(operation, uid=uid), webhook=webhook.HANDLER)
    return answer, len(memories._items)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT", "", None, 7])
async def test_no_review_of_any_client_stays_in_memory(operation):
    answer, pods = await remembered(operation)
    assert pods == 0
    assert (answer is not None and "patch" in answer["response"]) is (operation == "CREATE")


async def test_a_client_gets_400_for_anything_but_a_creation():
    """Over HTTP, below the class that kopf runs."""
    served = []

    async def kept(review, **_):
        served.append(review)
        return {}

    async with local_server(threading.Event()) as server:
        configs = server(kept)
        address = urllib.parse.urlsplit((await anext(configs))["url"])
        creation = {"request": {"operation": "CREATE"}}
        for review, status in ((creation, 200), ({"request": {"operation": "UPDATE"}}, 400), ({}, 400), ([], 400)):
            assert await asyncio.to_thread(status_of, address.port, review) == status
        assert served[1:] == [creation]
        await configs.aclose()


@pytest.mark.parametrize(
    ("start", "status"), [(b'{"kind":"AdmissionReview","request":{"uid":"%s","kind":{' % UID, 200), (b"[" * 300, 413)]
)
async def test_a_pod_that_is_too_large_to_be_read_is_refused(start, status):
    """With an error for an answer, the API server would let it pass without limits."""

    async def never(_review, **_):
        return {}

    async with local_server(threading.Event()) as server:
        configs = server(never)
        address = urllib.parse.urlsplit((await anext(configs))["url"])
        seen, answer = await asyncio.to_thread(posted, address.port, start.ljust(9_000_000, b"x"))
        assert seen == status
        if status == 200:
            response = json.loads(answer)["response"]
            assert (response["uid"], response["allowed"]) == (UID.decode(), False)
            assert response["status"]["code"] == 413
            assert "of 9000000 bytes cannot get its limits, want at most 1048576 bytes" in response["status"]["message"]
        await configs.aclose()


@pytest.mark.parametrize("depth", [1, 300, 900, 2000, 9900])
async def test_a_pod_that_is_nested_too_deeply_gets_its_limits_or_is_refused(depth):
    """Its author may write fields of any field manager, as deep as the API server reads."""
    fields = b'{"f:a":' * depth + b"{}" + b"}" * depth
    review = json.dumps(review_of(uid=UID.decode(), managedFields="DEEP")).encode().replace(b'"DEEP"', fields)
    async with local_server(threading.Event()) as server:
        configs = server(of_kopf()[0])
        address = urllib.parse.urlsplit((await anext(configs))["url"])
        status, answer = await asyncio.to_thread(posted, address.port, review)
        response = json.loads(answer)["response"]
        assert (status, response["uid"]) == (200, UID.decode())
        assert response["allowed"] is ("patch" in response) is (depth < 950)
        assert response.get("status", {}).get("code") == (None if depth < 950 else 400)
        await configs.aclose()


async def test_it_listens_when_kopf_can_answer():
    """kopf answers with 404 before it has read the resources of the API: the pod would pass without limits."""
    asked, listening = [], threading.Event()

    async def late(_review, **_):
        asked.append(listening.is_set())
        if len(asked) < 4:
            raise admission.UnknownResourceError("want resources")
        return {}

    async with local_server(listening) as server:
        configs = server(late)
        address = urllib.parse.urlsplit((await anext(configs))["url"])
        assert (asked, listening.is_set()) == ([False] * 4, True)
        assert await asyncio.to_thread(status_of, address.port, {"request": {"operation": "CREATE"}}) == 200
        await configs.aclose()


def local_server(listening):
    return webhook.CreationsServer(on_listening=listening.set, addr="127.0.0.1", host="127.0.0.1", insecure=True)


def status_of(port, review):
    return posted(port, json.dumps(review))[0]


def posted(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", "/mid-limits", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
