"""The extender with mutual TLS: it serves kube-scheduler, and refuses a caller without a trusted certificate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import extender_certificates, fake_fleet, host_scheduler
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
    """Run one kube-scheduler for each client certificate; return them by its name."""
    server = identities["extender"]
    flags = [
        f"--extender-tls-cert-file={server / 'one.crt'}",
        f"--extender-tls-key-file={server / 'one.key'}",
        f"--extender-tls-client-ca-file={identities['callers'] / 'ca.crt'}",
    ]
    made = {
        name: HostScheduler(
            cluster,
            f"case-tls-{name}",
            {},
            flags=flags,
            tls=extender_certificates.client(identities, name),
        )
        for name in ("callers", "strangers")
    }
    with host_scheduler.started(*made.values()):
        yield made


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[tuple[str, str]]:
    with fake_fleet.registered(cluster_client, ["hot", "cool"]) as (hot, cool):
        fake_fleet.report(cluster_client, hot, fake_fleet.load_status(cpu_percent=80))
        fake_fleet.report(cluster_client, cool, fake_fleet.load_status(cpu_percent=30))
        yield hot, cool


def test_a_caller_with_a_certificate_of_the_authority_is_served(
    scheduling: SchedulingHelper, schedulers: dict[str, HostScheduler], nodes: tuple[str, str]
) -> None:
    hot, cool = nodes
    caller = schedulers["callers"]
    assert scheduling.is_refused_soon("refused", caller.name, hot, HOT)
    assert scheduling.decide("placed", caller.name, [hot, cool]).node == cool
    assert caller.calls_counted("filter") >= 2
    assert caller.ignored_errors() == []


def test_an_untrusted_caller_is_refused_and_kube_scheduler_logs_it(
    scheduling: SchedulingHelper, schedulers: dict[str, HostScheduler], nodes: tuple[str, str]
) -> None:
    hot, _ = nodes
    stranger = schedulers["strangers"]
    assert scheduling.decide("stranger", stranger.name, [hot]).node == hot
    assert stranger.calls_counted("filter") == 0
    output = stranger.ignored_errors()
    assert output
    assert [line for line in output if not re.search("EOF|connection reset|broken pipe|tls:", line)] == []
