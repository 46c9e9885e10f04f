"""Mode extender: an unmodified kube-scheduler calls filter, prioritize and preempt, on loopback or over mutual TLS."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import extender_certificates, lone_scheduler
from e2e.support.lone_scheduler import PLUGIN, LoneScheduler

HOT, WARM, COOL = "hot", "warm", "cool"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running({"mode": "extender"}) as lone:
        for name, percent in ((HOT, 90), (WARM, 50), (COOL, 10)):
            lone.add_node(name, used_percent=percent)
        for index in range(4):
            lone.create_pod(f"low-{index}", cpu="25", priority=100, node=HOT)
        yield lone


@pytest.fixture(autouse=True)
def _ends(lone: LoneScheduler) -> Iterator[None]:
    yield
    for program in ("kube-scheduler", PLUGIN):
        lone.plane.stop(program)


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return extender_certificates.made(tmp_path_factory, "127.0.0.1", "::1")


@pytest.fixture
def service_flags(lone: LoneScheduler, identities: dict[str, Path], tmp_path: Path) -> list[str]:
    return lone.service_flags(extender_certificates.mounted(identities, tmp_path))


def places_by_load(lone: LoneScheduler, prefix: str) -> bool:
    """Return whether pods go to the cool node, by calls that the extender has answered."""
    names = [f"{prefix}-{index}" for index in range(3)]
    for name in names:
        lone.create_pod(name, cpu="1")
    lone.wait_bound(*names)
    answered = [lone.plugin_metric("requests_total", verb=verb, outcome="ok") for verb in ("filter", "prioritize")]
    return answered == [len(names)] * 2 and set(lone.nodes_of(prefix)) == {COOL}


def test_a_sidecar_filters_prioritizes_and_evicts_nothing_for_a_pod_that_the_node_would_refuse(
    lone: LoneScheduler,
) -> None:
    lone.start()
    assert places_by_load(lone, "sidecar")
    lone.create_pod("important", cpu="25", priority=9000, nodes=[HOT])
    lone.until("it is refused", lambda: lone.attempts("unschedulable") >= 1)
    assert lone.plugin_metric("requests_total", verb="preempt", outcome="ok") >= 1
    assert lone.nodes_of("low-") == [HOT] * 4
    lone.api.send("DELETE", f"{lone_scheduler.PODS}/important")


@pytest.mark.parametrize(("host", "prefix"), [("::1", "by-ipv6"), ("127.0.0.1", "by-ipv4")])
def test_a_service_answers_callers_with_a_certificate_of_the_authority(
    lone: LoneScheduler, identities: dict[str, Path], service_flags: list[str], host: str, prefix: str
) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, 0), family=family).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 on loopback: {error}")
    lone.start_plugin(*service_flags)
    where = f"[{host}]" if ":" in host else host
    lone.start_kube_scheduler(url=f"https://{where}:{lone.extender_port}", tls=extender_certificates.client(identities))
    assert places_by_load(lone, prefix)


def test_a_caller_without_one_is_not_answered_and_places_pods_alone(
    lone: LoneScheduler, identities: dict[str, Path], service_flags: list[str]
) -> None:
    lone.start_plugin(*service_flags)
    stranger = extender_certificates.client(identities, extender_certificates.STRANGERS)
    lone.start_kube_scheduler(url=f"https://127.0.0.1:{lone.extender_port}", tls=stranger)
    lone.api.send("DELETE", f"{lone_scheduler.PODS}/low-0")
    lone.create_pod("stranger", cpu="1", nodes=[HOT])
    lone.wait_bound("stranger")
    assert lone.plugin_metric("requests_total", verb="filter") == 0
