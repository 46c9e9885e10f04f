"""The extender as a Service serves it: kube-scheduler calls over TLS and shows who it is; a stranger is not served."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import extender_certificates, fake_fleet, fake_reports, host_scheduler, load_reports
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

HOT = "node(s) cpu usage exceed threshold"


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return extender_certificates.made(tmp_path_factory, "127.0.0.1")


@pytest.fixture(scope="module")
def schedulers(cluster: Cluster, identities: dict[str, Path]) -> Iterator[dict[str, HostScheduler]]:
    """By whose certificate kube-scheduler shows."""
    server = identities["extender"]
    flags = [
        f"--extender-tls-cert-file={server / 'one.crt'}",
        f"--extender-tls-key-file={server / 'one.key'}",
        f"--extender-tls-client-ca-file={identities['callers'] / 'ca.crt'}",
    ]
    made = {
        name: HostScheduler(
            cluster,
            f"story-tls-{name}",
            {},
            flags=flags,
            tls={
                "caFile": str(server / "ca.crt"),
                "certFile": str(identities[name] / "one.crt"),
                "keyFile": str(identities[name] / "one.key"),
            },
        )
        for name in ("callers", "strangers")
    }
    with host_scheduler.started(*made.values()):
        yield made


@pytest.fixture(scope="module")
def nodes(eyes: ClusterClient, fake_nodes: list[str]) -> Iterator[tuple[str, str]]:
    with fake_fleet.registered(eyes, ["hot", "cool"]) as (hot, cool):
        fake_reports.report(eyes, hot, load_reports.load(cpu_percent=80))
        fake_reports.report(eyes, cool, load_reports.load(cpu_percent=30))
        yield hot, cool


def test_a_caller_with_a_certificate_of_the_authority_is_served(
    court: SchedulingHelper, schedulers: dict[str, HostScheduler], nodes: tuple[str, str]
) -> None:
    hot, cool = nodes
    caller = schedulers["callers"]
    assert court.is_refused_soon("refused", caller.name, hot, HOT)
    assert court.decide("placed", caller.name, [hot, cool]).node == cool
    assert caller.answered("filter") >= 2
    assert caller.went_on_without() == []


def test_a_stranger_is_not_served_and_kube_scheduler_says_so(
    court: SchedulingHelper, schedulers: dict[str, HostScheduler], nodes: tuple[str, str]
) -> None:
    hot, _ = nodes
    stranger = schedulers["strangers"]
    assert court.decide("stranger", stranger.name, [hot]).node == hot
    assert stranger.answered("filter") == 0
    said = stranger.went_on_without()
    assert said
    assert [line for line in said if not re.search("EOF|connection reset|tls:", line)] == []
