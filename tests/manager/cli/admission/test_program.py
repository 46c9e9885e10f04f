"""The admission webhook as a process, in the thread of the test: its certificate, its answers, probes and its end."""

import gc
import json
import logging
import os
import re
import ssl

import httpx2
import pytest

from apiserver_client import connection
from component_base import clock
from manager.cli.admission import certificate
from manager.cli.admission import webhook as process
from manager.cli.admission.settings import AdmissionSettings
from manager.cli.admission.webhook import AdmissionProgram
from tests.fakes import apiserver, cluster
from tests.manager import in_process
from tests.manager.cli.admission.test_certificate import CONFIGURATION, HOST, SECRET, secret, trusting
from tests.manager.cli.admission.test_webhook import UID, review_of
from tests.manager.in_process import get, run, until
from tools.localcluster.host import ports

pytestmark = pytest.mark.slow

DISCOVERY = ("/api", "/apis", "/api/v1", "/apis/apiextensions.k8s.io/v1")


@pytest.fixture(autouse=True)
def _as_before():
    """Undo what the program does to its process."""
    access = logging.getLogger("aiohttp.access")
    level = access.level
    access.setLevel(logging.NOTSET)
    with in_process.restored():
        yield
    access.setLevel(level)


@pytest.fixture(autouse=True)
def _short_drain(monkeypatch):
    monkeypatch.setattr(process, "_DRAIN_SECONDS", 0.3)


@pytest.fixture(scope="module")
def pair():
    return certificate.make(HOST, clock.utc_now())


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO)
    return caplog


@pytest.fixture
def served(pair):
    """Run an apiserver that has the configuration of the webhook, and no Secret yet."""
    with in_process.serving(apiserver.running()) as made:
        for path in DISCOVERY:
            made.server.on("GET", path, apiserver.Answer(cluster.discovery(path)))
        made.server.on("GET", CONFIGURATION, trusting(pair))
        yield made


@pytest.fixture
def webhook(served, tmp_path):
    """Return a replica that has not been run."""
    settings = AdmissionSettings(
        certificate_dir=str(tmp_path / "c"), port=ports.free_port(), http_address="127.0.0.1", http_port=0
    )
    return AdmissionProgram(settings, connection.Connection(server=served.server.url, origin="the test"))


def page(webhook, path):
    return get(webhook._endpoint.port, path)


def reviewed(webhook, pair, content=None):
    """Let a pod be reviewed, as an API server that trusts the certificate does; return the response."""
    trusted = ssl.create_default_context(cadata=pair.bundle.decode())
    with httpx2.Client(verify=trusted, trust_env=False, timeout=10) as client:
        answer = client.post(
            f"https://127.0.0.1:{webhook._settings.port}/mid-limits",
            content=content or json.dumps(review_of(uid=UID.decode())), extensions={"sni_hostname": HOST},
        )  # fmt: skip
    assert answer.status_code == 200
    return answer.json()["response"]


@pytest.mark.parametrize("stop", in_process.STOP)
def test_it_answers_reviews_until_a_signal_and_returns_0(served, webhook, pair, log, stop):
    served.server.on("GET", SECRET, secret(pair))
    seen = {}

    def script():
        until(lambda: page(webhook, "/readyz") == (200, "serving"))
        assert page(webhook, "/healthz") == (200, "alive")
        response = reviewed(webhook, pair)
        assert (response["uid"], response["allowed"], "patch" in response) == (UID.decode(), True, True)
        seen.update(metrics=page(webhook, "/metrics")[1], frozen=gc.get_freeze_count(), threshold=gc.get_threshold())

    assert run(webhook.run, script, stop) == 0
    for name in ("process_resident_memory_bytes", "koord_admission_certificate_end_timestamp_seconds"):
        assert re.search(rf"^{name}\b.* \S+$", seen["metrics"], re.MULTILINE)
    assert seen["frozen"] > 0, "a full collection leaves out what the imports made"
    assert seen["threshold"][0] == process._COLLECT_AFTER_OBJECTS, "no collection delays a pod"
    assert f"serving {HOST} on port {webhook._settings.port}" in log.messages
    assert not [each for each in log.records if each.name == "aiohttp.access"], "no line for each pod"
    assert not [each for each in log.records if each.levelno >= logging.WARNING and not each.name.startswith("kopf")]
    assert {each.path for each in served.server.requests} == {SECRET, CONFIGURATION, *DISCOVERY}
    assert {each.method for each in served.server.requests} == {"GET"}, "it watches and writes nothing"
    assert has_ended(webhook)


def test_a_pod_that_is_nested_too_deeply_gets_its_limits_or_is_refused(served, webhook, pair):
    """Its author may write fields of any field manager, as deep as the API server reads."""
    served.server.on("GET", SECRET, secret(pair))

    def script():
        until(lambda: page(webhook, "/readyz") == (200, "serving"))
        for depth in (1, 300, 900, 2000, 9900):
            fields = b'{"f:a":' * depth + b"{}" + b"}" * depth
            review = json.dumps(review_of(uid=UID.decode(), managedFields="DEEP")).encode()
            response = reviewed(webhook, pair, review.replace(b'"DEEP"', fields))
            assert response["uid"] == UID.decode()
            assert response["allowed"] is ("patch" in response) is (depth < 950), depth
            assert response.get("status", {}).get("code") == (None if depth < 950 else 400)

    assert run(webhook.run, script) == 0


def test_a_replica_whose_kopf_has_ended_is_not_alive(served, webhook, pair):
    served.server.on("GET", SECRET, secret(pair))

    def script():
        until(lambda: page(webhook, "/readyz") == (200, "serving"))
        webhook._thread.stop.set()
        until(lambda: page(webhook, "/healthz") == (503, "kopf has ended: no review is answered"))

    assert run(webhook.run, script) == 0


@pytest.mark.parametrize("stop", in_process.STOP)
def test_after_a_signal_it_is_not_ready_and_answers_until_no_review_comes_anymore(
    served, webhook, pair, monkeypatch, stop
):
    monkeypatch.setattr(process, "_DRAIN_SECONDS", 3.0)
    served.server.on("GET", SECRET, secret(pair))

    def script():
        until(lambda: page(webhook, "/readyz") == (200, "serving"))
        os.kill(os.getpid(), stop)
        until(lambda: page(webhook, "/readyz") == (503, "the server ends"))
        assert "patch" in reviewed(webhook, pair)
        assert page(webhook, "/healthz") == (200, "alive")

    assert run(webhook.run, script, None) == 0
    assert has_ended(webhook)


def has_ended(webhook):
    """Check that neither the endpoint nor the webhook listens."""
    for url in (f"http://127.0.0.1:{webhook._endpoint.port}", f"https://127.0.0.1:{webhook._settings.port}"):
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(url, verify=False, trust_env=False)
    return True


@pytest.mark.parametrize("stop", in_process.STOP)
def test_without_a_certificate_it_is_alive_and_not_ready_until_a_signal_and_returns_0(served, webhook, log, stop):
    served.server.on("GET", SECRET, apiserver.status(403, "Forbidden"))

    def script():
        until(lambda: page(webhook, "/readyz")[1].startswith("certificate: "))
        code, text = page(webhook, "/readyz")
        assert (code, "403 Forbidden" in text) == (503, True)
        assert page(webhook, "/healthz") == (200, "alive")

    assert run(webhook.run, script, stop) == 0
    assert not [text for text in log.messages if text.startswith("serving ")]
    assert has_ended(webhook)
