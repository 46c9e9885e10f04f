"""3,000 hostile peers of the extender's TLS port: they cost little memory, and kube-scheduler is served meanwhile."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import extender_certificates, lone_scheduler
from e2e.support.hostile_peers import HostilePeers
from e2e.support.lone_scheduler import LoneScheduler
from scheduler_plugin.extender.http_server import MOST_CONNECTIONS

PEERS = 3000
MOST_MEBIBYTES = 32  # beyond the memory before the attack
PODS = 20
LONGEST_SECONDS = 300  # 20 s on an idle machine with two cores
VERBS = ("filter", "prioritize", "bind")
BOUNDED = ("silent", "half a hello", "no end of the handshake", "slow head", "slow body")
HOT = [f"hot-{index}" for index in range(5)]
COOL = [f"cool-{index}" for index in range(5)]


def resident_mebibytes(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    (kibibytes,) = re.findall(r"^Rss: +(\d+) kB", text, re.MULTILINE)
    return int(kibibytes) / 1024


@pytest.fixture
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return extender_certificates.made(tmp_path_factory, "127.0.0.1")


@pytest.fixture
def lone() -> Iterator[LoneScheduler]:
    """Run nodes that kube-scheduler alone would prefer, but are hot."""
    with lone_scheduler.running() as lone:
        for hot, cool in zip(HOT, COOL, strict=True):
            lone.add_node(hot, used_percent=90)
            lone.add_node(cool, used_percent=10)
            lone.create_pod(f"low-{cool}", cpu="50", node=cool)
            lone.report(cool, 10, pods=[f"low-{cool}"])
        yield lone


@pytest.mark.timeout(3 * LONGEST_SECONDS)
def test_hostile_peers_cost_little_memory_and_keep_kube_scheduler_from_nothing(
    lone: LoneScheduler, identities: dict[str, Path], tmp_path: Path
) -> None:
    extender = lone.start_extender(*lone.service_flags(extender_certificates.mounted(identities, tmp_path)))
    caller = extender_certificates.client(identities)
    lone.start_kube_scheduler(url=f"https://127.0.0.1:{lone.extender_port}", tls=caller)
    lone.create_pod("web-before")
    lone.wait_bound("web-before")
    before = most = resident_mebibytes(extender.process.pid)

    context = ssl.create_default_context(cafile=caller["caFile"])
    context.load_cert_chain(caller["certFile"], caller["keyFile"])
    peers = HostilePeers(lone.extender_port, context)
    with peers.connecting(PEERS):
        for index in range(PODS):
            lone.create_pod(f"web-{index}", cpu="1")
            for _ in range(5):
                time.sleep(0.1)
                most = max(most, resident_mebibytes(extender.process.pid))
        lone.until("all have connected", lambda: peers.connected.total() == PEERS, LONGEST_SECONDS)
        lone.until("peers without a whole request are gone", lambda: not any(peers.open[kind] for kind in BOUNDED))
        lone.wait_bound(*(f"web-{index}" for index in range(PODS)))
        assert peers.open.total() <= MOST_CONNECTIONS
    print(f"before {before:.1f} MiB, at most {most:.1f} MiB")
    assert most - before <= MOST_MEBIBYTES
    assert set(lone.nodes_of("web-")) <= set(COOL)
    answered = {verb: lone.of_extender("requests_total", verb=verb, outcome="ok") for verb in VERBS}
    assert answered == dict.fromkeys(VERBS, PODS + 1)
