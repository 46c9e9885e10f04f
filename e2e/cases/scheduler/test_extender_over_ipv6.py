"""The extender on IPv6 and IPv4, with the flags that the chart renders, called by the real kube-scheduler."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import extender_certificates, lone_scheduler
from e2e.support.lone_scheduler import LoneScheduler

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", autouse=True)
def _ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 on loopback: {error}")


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return extender_certificates.made(tmp_path_factory, "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def service_flags(lone: LoneScheduler, identities: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list:
    return lone.service_flags(extender_certificates.mounted(identities, tmp_path_factory.mktemp("secrets")))


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as lone:
        lone.add_node("cool", used_percent=10)
        lone.add_node("hot", used_percent=90)
        yield lone


@pytest.fixture(autouse=True)
def _ends(lone: LoneScheduler) -> Iterator[None]:
    yield
    for program in ("kube-scheduler", "extender"):
        lone.plane.stop(program)


def is_asked(lone: LoneScheduler, pod: str) -> bool:
    """Return whether kube-scheduler asks the extender about every verb of a pod, and follows it."""
    for index in range(3):
        lone.create_pod(f"{pod}-{index}", cpu="1")
    lone.wait_bound(*(f"{pod}-{index}" for index in range(3)))
    calls = {verb: lone.of_extender("requests_total", verb=verb, outcome="ok") for verb in ("filter", "bind")}
    return calls == {"filter": 3, "bind": 3} and set(lone.nodes_of(pod)) == {"cool"}


@pytest.mark.parametrize("address", ["::1", "::"])
def test_a_sidecar_listens_on_ipv6(lone: LoneScheduler, address: str) -> None:
    lone.start_extender(f"--extender-address={address}", f"--extender-port={lone.extender_port}")
    lone.start_kube_scheduler(url=f"http://[::1]:{lone.extender_port}")
    assert is_asked(lone, "alone" if address == "::1" else "both")


@pytest.mark.parametrize(("host", "pod"), [("[::1]", "by-ipv6"), ("127.0.0.1", "by-ipv4")])
def test_the_service_listens_on_ipv6_and_ipv4(
    lone: LoneScheduler, identities: dict[str, Path], service_flags: list[str], host: str, pod: str
) -> None:
    assert "--extender-address=::" in service_flags
    lone.start_extender(*service_flags)
    url = f"https://{host}:{lone.extender_port}"
    lone.start_kube_scheduler(url=url, tls=extender_certificates.client(identities))
    assert is_asked(lone, pod)
