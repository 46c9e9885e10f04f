"""What the handler changes; e2e/cases/admission/test_mid_limits_webhook.py runs it below an API server."""

import asyncio
import contextlib
import functools
import http.client
import json
import re
import socket
import ssl
import subprocess
import sys
import threading
import time

import kopf
import psutil
import pytest

from manager.cli.admission import config_review, server, webhook
from manager.cli.admission.settings import AdmissionSettings
from tests.fakes import certificates
from tools.localcluster.host import ports

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


def handler_of(name):
    handlers = webhook.new_registry(None, AdmissionSettings())._webhooks.get_all_handlers()
    return next(handler for handler in handlers if handler.id == name)


async def test_an_error_of_the_webhook_refuses_no_pod(monkeypatch, caplog):
    """kopf answers an exception of a handler with a refusal, which failurePolicy Ignore does not cover."""
    monkeypatch.setattr(webhook, "limits", lambda *_, **__: 1 / 0)
    handler = handler_of(webhook.HANDLER)
    patch, warnings = kopf.Patch(), []
    await handler.fn(body=kopf.Body(pod(WORK)), patch=patch, warnings=warnings)
    assert patch.as_json_patch() == []
    assert warnings == ["this koord-mid pod gets no limits: the webhook failed; its log has the error"]
    assert "ZeroDivisionError" in caplog.text


async def test_a_pod_of_a_namespace_that_opts_in_gets_the_class_and_its_priority():
    patch = kopf.Patch()
    await handler_of(server.OPT_IN_HANDLER).fn(patch=patch)
    assert {each["path"].removeprefix("/spec/"): each["value"] for each in patch.as_json_patch()} == {
        "priorityClassName": "koord-mid",
        "priority": 7000,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def review_of(operation="CREATE", *, uid="7", **metadata):
    resource = {"group": "", "version": "v1", "resource": "pods"}
    of_pod = {**pod(WORK), "metadata": metadata}
    return {"request": {"uid": uid, "resource": resource, "operation": operation, "userInfo": {}, "object": of_pod}}


@contextlib.asynccontextmanager
async def serving(fn):
    """Serve with a function in place of kopf; yield what posts a body, and returns status and answer."""
    listening, port = threading.Event(), ports.free_port()
    configurations = server.AdmissionServer(port, None, listening.set, "127.0.0.1")(fn)
    await anext(configurations)
    assert listening.is_set()
    yield functools.partial(asyncio.to_thread, posted, port)
    await configurations.aclose()


def posted(port, body, path="/mid-limits"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


async def test_a_client_gets_400_for_anything_but_a_creation():
    """kopf would remember the object of any other review for good."""
    served = []

    async def remember(review, **_):
        served.append(review)
        return {}

    async with serving(remember) as post:
        creation = {"request": {"operation": "CREATE"}}
        others = [{"request": {"operation": name}} for name in ("UPDATE", "DELETE", "CONNECT", "", None, 7)]
        assert (await post(json.dumps(creation)))[0] == 200
        for review in (*others, {}, []):
            assert (await post(json.dumps(review)))[0] == 400
        assert served[1:] == [creation]
        update = {"request": {"operation": "UPDATE"}}
        assert (await post(json.dumps(update), "/colocation-config"))[0] == 200
        assert (await post(json.dumps({"request": {"operation": "DELETE"}}), "/colocation-config"))[0] == 400
        assert served[2:] == [creation], "for kopf it is a creation too"


DOCUMENT = {"colocation-config": '{"enable": true}'}


@pytest.mark.parametrize(
    ("data", "refusal", "advice"),
    [
        (DOCUMENT, "", ""),
        ({"colocation-config": "{"}, "the document: seen", ""),
        ({"colocation-config": '{"enable": 7}'}, "colocation-config: enable: seen 7, want true or false", ""),
        ({"colocation_config": '{"enable": true}'}, "want the key colocation-config", ""),
        (None, '{"enable": false}', ""),
        ({"colocation-config": '{"enable": true, "enable": false}'}, "", "the last one counts"),
    ],
)
async def test_an_edit_of_the_configuration_is_judged_as_by_the_manager(data, refusal, advice):
    handler = handler_of(config_review.HANDLER)
    warnings, edit = [], functools.partial(handler.fn, old=kopf.Body({"data": DOCUMENT}))
    body = kopf.Body({"data": data} if data else {})
    if refusal:
        with pytest.raises(kopf.AdmissionError, match=re.escape(refusal)):
            await edit(body=body, warnings=warnings)
    else:
        await edit(body=body, warnings=warnings)
    assert advice in "".join(warnings)
    assert bool(advice) is bool(warnings)


async def test_a_first_configuration_without_a_document_is_created_with_a_warning():
    assert config_review.reviewed({}, None)[0] == ""
    assert "changes nothing" in "".join(config_review.reviewed({}, None)[1])


@pytest.mark.parametrize(
    ("start", "status"), [(b'{"kind":"AdmissionReview","request":{"uid":"%s","kind":{' % UID, 200), (b"[" * 300, 413)]
)
async def test_a_pod_that_is_too_large_to_be_read_is_refused(start, status):
    """With an error for an answer, the API server would let it pass without limits."""

    async def never(_review, **_):
        return {}

    async with serving(never) as post:
        seen, answer = await post(start.ljust(9_000_000, b"x"))
        assert seen == status
        if status == 200:
            response = json.loads(answer)["response"]
            assert (response["uid"], response["allowed"]) == (UID.decode(), False)
            assert response["status"]["code"] == 413
            assert "of 9000000 bytes cannot get its limits, want at most 1048576 bytes" in response["status"]["message"]
            assert (await post(start, "/colocation-config"))[0] == 400, "the manager checks an edit again"


async def test_it_listens_when_kopf_can_answer():
    """kopf fails before it has read the resources of the API: the pod would pass without limits."""
    attempts = []

    async def late(_review, **_):
        attempts.append(1)
        if len(attempts) < 4:
            raise LookupError("want resources")
        return {}

    async with serving(late) as post:
        assert len(attempts) == 4
        assert (await post('{"request": {"operation": "CREATE"}}'))[0] == 200


SERVER = """
import asyncio, gc, ssl, sys
from manager.cli.admission.server import AdmissionServer

async def answer(review, **_):
    return {}

async def serve(port, certificate, key, idle_seconds):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    listening = lambda: print("listening", flush=True)
    server = AdmissionServer(int(port), context, listening, "127.0.0.1", float(idle_seconds))
    async for _ in server(answer):
        pass

asyncio.run(serve(*sys.argv[1:]))
"""


@pytest.fixture
def tls_server(request, tmp_path):
    """Start the server over TLS as a process of its own; return the process and what connects to it."""
    certificate, port = certificates.make(tmp_path, "webhook"), ports.free_port()
    words = [str(port), certificate.certificate_path, certificate.key_path, str(request.param)]
    context = ssl.create_default_context(cafile=certificate.certificate_path)
    context.check_hostname = False

    def connect(*, with_tls=True):
        plain = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        return opened.enter_context(context.wrap_socket(plain)) if with_tls else plain

    with (
        contextlib.ExitStack() as opened,
        subprocess.Popen([sys.executable, "-c", SERVER, *words], stdout=subprocess.PIPE) as process,
    ):
        try:
            assert process.stdout.readline() == b"listening\n"
            yield psutil.Process(process.pid), connect
        finally:
            process.kill()


def is_open(peer):
    peer.settimeout(0.01)
    try:
        return peer.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def post_over(peer):
    body = b'{"request": {"operation": "CREATE"}}'
    peer.settimeout(10)
    peer.sendall(b"POST /mid-limits HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    answer = b""
    while not answer.endswith(b"{}") and (more := peer.recv(4096)):
        answer += more
    return answer.startswith(b"HTTP/1.1 200 OK")


def open_peers(connect, count, start=b"", **how):
    """Return connections, of which those that are refused are left out."""
    peers = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            peers.append(connect(**how))
            peers[-1].sendall(start)
    return peers


@pytest.mark.slow
@pytest.mark.parametrize("tls_server", [120], indirect=True)
@pytest.mark.parametrize(
    ("start", "how"),
    [
        (b"", {}),
        (b"", {"with_tls": False}),
        (b"POST /mid-limits HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx", {}),
    ],
    ids=["idle", "no handshake", "half a request"],
)
def test_500_peers_take_little_memory_and_the_newest_are_refused(tls_server, start, how):
    process, connect = tls_server
    first = connect()
    assert post_over(first)
    before = process.memory_info().rss
    peers = open_peers(connect, 500, start, **how)
    time.sleep(0.5)
    assert process.memory_info().rss - before <= 16 << 20
    assert sum(map(is_open, peers)) == server.MOST_CONNECTIONS - 1
    assert post_over(first)
    for peer in peers:
        peer.close()
    time.sleep(0.5)
    assert post_over(connect())


@pytest.mark.slow
@pytest.mark.parametrize("tls_server", [1.5], indirect=True)
def test_a_peer_that_sends_no_whole_request_in_time_is_closed_and_others_stay(tls_server):
    _process, connect = tls_server
    slow = [b"", b"POST /mid-limits HTTP/1.1\r\nHost: ", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"]
    peers = [*open_peers(connect, 1, with_tls=False), *(open_peers(connect, 1, start)[0] for start in slow)]
    busy = connect()
    for _ in range(8):
        assert post_over(busy)
        time.sleep(0.5)
    assert [is_open(peer) for peer in peers] == [False] * 4
    assert is_open(busy)


@pytest.mark.slow
@pytest.mark.parametrize("tls_server", [120], indirect=True)
def test_large_reviews_at_a_time_are_bounded(tls_server):
    process, connect = tls_server
    assert post_over(connect())
    before = process.memory_info().rss
    head = b"POST /mid-limits HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n"
    peers = open_peers(connect, 100, head + b" " * 1_000_000)
    time.sleep(1)
    assert process.memory_info().rss - before <= 48 << 20
    assert sum(first_bytes(peer) == b"HTTP/1.1 503" for peer in peers) >= 80


def first_bytes(peer):
    peer.settimeout(0.05)
    try:
        return peer.recv(12)
    except TimeoutError:
        return b""
