"""The admission webhook as a process, called by a real API server: the same pods as by the rules, and its certificate.

The API server calls the process by the name of the Service of the chart, which has this machine as its endpoint.
"""

from __future__ import annotations

import base64
import copy
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

import psutil
import pytest

from api_types.mid_pods import template
from e2e.support import admission_agreement as agreement
from e2e.support import chart_rendering
from e2e.support import mid_pod_examples as examples
from e2e.support.admission_agreement import PLAIN
from e2e.support.waiting import until
from tools.localcluster.apiserver_requests import MERGE_PATCH, Connection, RequestError
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane

SCHEDULER, LIMITED, FAILING, OPTED = "koord-scheduler", "limited", "failing", "opted"
TEMPLATES = ("admission/webhook", "admission/rbac")
NAMESPACE, SECRET, CONFIGURATION = "koordinator-system", "koord-admission-certificate", "koord-suite-mid-limits"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
WHOLE = "resources of the pod as a whole"
EXAMPLES = examples.table()
REFUSED = {
    "a fraction of Mid",
    "a negative amount",
    "text for an amount",
    WHOLE,
}
"""Examples that the conditions keep from the webhook, or that are no pods."""


class Webhook(NamedTuple):
    plane: ControlPlane
    api: Connection
    port: int

    def start(self, name: str = "admission", port: int = 0) -> int:
        """Start a replica and return its port for probes."""
        (http_port,) = ports.free_ports(1)
        folder = self.plane.places.state / name
        self.plane.start_python(
            name, "-m", "manager", "serve-admission", f"--kubeconfig={self.plane.kubeconfig}",
            f"--port={port or self.port}", f"--http-port={http_port}", "--http-address=127.0.0.1",
            f"--certificate-dir={folder}", f"--scheduler-name={SCHEDULER}", "--certificate-check-seconds=0.5",
        )  # fmt: skip
        self.plane.wait_for_page(self.plane.process(name), http_port, "/readyz", 60)
        return http_port

    def secret(self) -> dict[str, bytes]:
        data = self.api.send("GET", f"{SECRETS}/{SECRET}").get("data") or {}
        return {key: base64.b64decode(value) for key, value in data.items()}

    def bundle(self) -> bytes:
        webhooks = self.api.send("GET", f"{CONFIGURATIONS}/{CONFIGURATION}")["webhooks"]
        bundles = {each["clientConfig"].get("caBundle", "") for each in webhooks}
        return base64.b64decode(bundles.pop()) if len(bundles) == 1 else b""


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    (port,) = ports.free_ports(1)
    with agreement.running([LIMITED, NAMESPACE]) as (plane, api):
        rendered = chart_rendering.rendered(plane.binaries, {"admission": {"mode": "webhook"}}, *TEMPLATES)
        (configuration,) = (each for each in rendered if each["kind"] == "MutatingWebhookConfiguration")
        _, own, _ = configuration["webhooks"]
        for each in configuration["webhooks"]:
            each["clientConfig"]["service"]["port"] = port
        own["namespaceSelector"] = {"matchLabels": {"rules": LIMITED}}
        (secret,) = (each for each in rendered if each["kind"] == "Secret")
        api.send("POST", CONFIGURATIONS, configuration)
        api.send("POST", SECRETS, secret)
        _create_service(api, port)
        running = Webhook(plane, api, port)
        running.start()
        until("pods are limited", lambda: _is_limited(api), within_seconds=60)
        yield running


def _create_service(api: Connection, port: int) -> None:
    """Create the Service with this machine as its endpoint, which must not be an address of loopback."""
    addresses = (
        each.address for own in psutil.net_if_addrs().values() for each in own if each.family == socket.AF_INET
    )
    own = next(each for each in addresses if not each.startswith("127."))
    name = {"name": "koord-admission"}
    service = {"metadata": name, "spec": {"ports": [{"name": "webhook", "port": port}]}}
    api.send("POST", f"/api/v1/namespaces/{NAMESPACE}/services", service)
    endpoints = {
        "metadata": {**name, "labels": {"kubernetes.io/service-name": "koord-admission"}},
        "addressType": "IPv4",
        "ports": [{"name": "webhook", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [own], "conditions": {"ready": True}}],
    }
    api.send("POST", f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices", endpoints)
    before_1_33 = {"addresses": [{"ip": own}], "ports": endpoints["ports"]}
    api.send("POST", f"/api/v1/namespaces/{NAMESPACE}/endpoints", {"metadata": name, "subsets": [before_1_33]})


def _is_limited(api: Connection) -> bool:
    made = agreement.stored(api, LIMITED, examples.table()["plain resources"])
    return made is not None and made["qosClass"] == "Burstable"


def _disagreement(api: Connection, pod: dict[str, Any]) -> str:
    """Return how webhook and rules differ for a pod; both leave the resources as they are that the rules refuse."""
    by_webhook = agreement.stored(api, LIMITED, copy.deepcopy(pod))
    rewritten = template.admitted(agreement.completed(pod), {}, (), SCHEDULER)
    by_rules = agreement.stored(api, PLAIN, rewritten.pod)
    again = agreement.stored(api, LIMITED, rewritten.pod)
    found = agreement.difference(by_webhook, by_rules) or agreement.difference(again, by_rules)
    return f"{json.dumps(pod)}: {rewritten.refusal} {found}" if found else ""


@pytest.mark.parametrize("name", EXAMPLES)
def test_webhook_and_rules_agree(webhook: Webhook, name: str) -> None:
    assert _disagreement(webhook.api, EXAMPLES[name]) == ""


def test_webhook_and_rules_agree_about_drawn_pods(webhook: Webhook) -> None:
    assert [text for pod in examples.drawn(200, seed=23) if (text := _disagreement(webhook.api, pod))] == []
    assert _is_limited(webhook.api)


def test_pods_without_a_class_are_mid_in_a_namespace_that_opts_in(webhook: Webhook) -> None:
    labels = {"koordinator.sh/mid": "enabled", "rules": LIMITED}
    webhook.api.send("POST", "/api/v1/namespaces", {"metadata": {"name": OPTED, "labels": labels}})
    differences = {}
    for name, pod in EXAMPLES.items():
        made, by_rules = (
            agreement.stored(webhook.api, *of) for of in ((OPTED, pod), (LIMITED, agreement.opted_in(pod)))
        )
        differences[name] = agreement.difference(made, by_rules)
    assert {name: text for name, text in differences.items() if text} == {}
    of_none = agreement.stored(webhook.api, OPTED, EXAMPLES["no class"])
    assert of_none is not None
    assert (of_none["spec"]["priority"], of_none["spec"]["schedulerName"]) == (7000, SCHEDULER)


def test_a_mid_pod_that_is_too_large_for_the_webhook_is_refused(webhook: Webhook) -> None:
    """An author may write a pod whose review is several times as large: each `<` takes six bytes in it."""
    sample = copy.deepcopy(examples.table()["plain resources"])
    sample["spec"]["containers"][0]["env"] = [{"name": "LARGE", "value": "<" * 1_000_000}]
    path = f"/api/v1/namespaces/{LIMITED}/pods?dryRun=All"
    with pytest.raises(RequestError, match=r"a koord-mid pod of \d+ bytes cannot get its limits"):
        webhook.api.send("POST", path, sample)
    del sample["spec"]["priorityClassName"]
    assert agreement.stored(webhook.api, LIMITED, sample) is not None


def test_only_mid_pods_reach_the_webhook(webhook: Webhook) -> None:
    """Without a server, with an error that is seen: any pod but a Mid one passes."""
    wrong = copy.deepcopy(webhook.api.send("GET", f"{CONFIGURATIONS}/{CONFIGURATION}"))
    _, own, _ = wrong["webhooks"]
    own["failurePolicy"] = "Fail"
    own["clientConfig"]["service"]["port"] = 1
    own["namespaceSelector"] = {"matchLabels": {"rules": FAILING}}
    webhook.api.send("POST", "/api/v1/namespaces", {"metadata": {"name": FAILING, "labels": {"rules": FAILING}}})
    body = {"metadata": {"name": "failing"}, "webhooks": [{**own, "name": "failing.koord-suite.io"}]}
    webhook.api.send("POST", CONFIGURATIONS, body)
    reached = {}
    until("the webhook is called", lambda: not _passes(webhook.api, examples.table()["plain resources"]))
    for name, pod in EXAMPLES.items():
        reached[name] = not _passes(webhook.api, pod)
    others = {"prod", "no class", *REFUSED}
    assert {name for name, called in reached.items() if not called} == others


def _passes(api: Connection, pod: dict[str, Any]) -> bool:
    try:
        agreement.stored(api, FAILING, pod)
    except RequestError as error:
        assert "failed calling webhook" in str(error)  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize(
    ("document", "refusal"),
    [
        (None, "an absent or empty colocation-config changes nothing"),
        ("{ }", "an absent or empty colocation-config changes nothing"),
        ("null", "want an object"),
        ("#" * 5_000, "want valid"),
        ("{", "colocation-config: the document: seen"),
        ('{"enable": true, "midCPUThresholdPercent": 150}', "midCPUThresholdPercent: seen 150, want an integer"),
        ('{"enable": true, "nodeConfigs": [{"name": "x", "midCPUThresholdPercent": 150}]}', ""),
        ('{"enable": false}', ""),
    ],
)
def test_an_edit_that_the_manager_would_not_use_is_refused(
    webhook: Webhook, document: str | None, refusal: str
) -> None:
    config_map = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": '{"enable": true}'}}
    webhook.api.send("POST", CONFIG_MAPS, config_map)
    path = f"{CONFIG_MAPS}/slo-controller-config"

    def edit(text: str | None) -> str:
        try:
            webhook.api.send("PATCH", path, {"data": {"colocation-config": text}}, content=MERGE_PATCH)
        except RequestError as error:
            return str(error)
        return ""

    try:
        until("edits are checked", lambda: edit("{}") and edit("{"), within_seconds=30)
        assert refusal in (answer := edit(document))
        assert bool(refusal) is bool(answer)
    finally:
        webhook.api.send("DELETE", path)


@pytest.mark.parametrize("fault", ["ended", "killed", "frozen"])
def test_pods_are_created_while_the_webhook_is_away(webhook: Webhook, fault: str) -> None:
    sample = examples.table()["plain resources"]
    process = webhook.plane.process("admission").process
    {"ended": lambda: webhook.plane.stop("admission"), "killed": process.kill, "frozen": process.suspend}[fault]()
    if fault == "frozen":
        until("it is frozen", lambda: process.status() == psutil.STATUS_STOPPED, within_seconds=10)
    try:
        made = agreement.stored(webhook.api, LIMITED, sample)
        assert made is not None
        assert made["qosClass"] == "Guaranteed"
    finally:
        if fault == "frozen":
            process.resume()
        else:
            webhook.plane.stop("admission")
            webhook.start()
    until("pods are limited again", lambda: _is_limited(webhook.api), within_seconds=30)


def test_a_webhook_that_ends_limits_the_pods_of_the_next_seconds(webhook: Webhook) -> None:
    """Limit pods until the Service has stopped sending reviews to a replica that a roll-out replaces."""
    webhook.plane.process("admission").process.terminate()
    try:
        for _ in range(6):
            assert _is_limited(webhook.api)
            time.sleep(0.5)
    finally:
        webhook.plane.stop("admission")
        webhook.start()
    until("pods are limited again", lambda: _is_limited(webhook.api), within_seconds=30)


def test_the_certificate_is_kept_and_a_lost_one_is_made_again(webhook: Webhook) -> None:
    kept = webhook.secret()
    assert set(kept) == {"tls.crt", "tls.key", "ca.crt"}
    assert webhook.bundle() == kept["ca.crt"]
    folder = webhook.plane.places.state / "admission"
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {"tls.crt": 0o600, "tls.key": 0o600}
    secret = webhook.api.send("GET", f"{SECRETS}/{SECRET}")
    webhook.api.send("PUT", f"{SECRETS}/{SECRET}", {**secret, "data": {"ca.crt": secret["data"]["ca.crt"]}})
    until("a new certificate", lambda: "tls.key" in webhook.secret() and webhook.secret() != kept, within_seconds=30)
    made = webhook.secret()["tls.crt"]
    until("it is trusted", lambda: webhook.bundle().startswith(made), within_seconds=30)
    assert kept["tls.crt"] in webhook.bundle(), "the certificate that is served until then stays trusted"
    for _ in range(20):  # trusted before and after the change, without a pause
        assert _is_limited(webhook.api)
        time.sleep(0.1)
    served = ssl.get_server_certificate(("127.0.0.1", webhook.port)).encode()
    assert served.split() == made.split()


def test_two_replicas_share_one_certificate(webhook: Webhook) -> None:
    (port,) = ports.free_ports(1)
    webhook.start("second", port)
    try:
        first, second = (ssl.get_server_certificate(("127.0.0.1", each)) for each in (webhook.port, port))
        assert first == second
    finally:
        webhook.plane.stop("second")


def test_a_bundle_that_was_overwritten_is_restored(webhook: Webhook) -> None:
    path = f"{CONFIGURATIONS}/{CONFIGURATION}"
    configuration = webhook.api.send("GET", path)
    del configuration["webhooks"][0]["clientConfig"]["caBundle"]
    webhook.api.send("PUT", path, configuration)
    until("the bundle is back", lambda: webhook.bundle() == webhook.secret()["ca.crt"], within_seconds=30)
    until("pods are limited", lambda: _is_limited(webhook.api), within_seconds=30)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"{}", b'{"request": {}}', b"x" * 3_000_000])
def test_nonsense_from_any_client_is_answered_and_changes_nothing(webhook: Webhook, body: bytes) -> None:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", webhook.port, context=ssl._create_unverified_context(), timeout=10
    )
    connection.request("POST", "/mid-limits", body, {"Content-Type": "application/json"})
    assert connection.getresponse().status >= HTTPStatus.BAD_REQUEST
    connection.close()
    assert _is_limited(webhook.api)
