"""A leading manager is killed, or frozen for longer than its Lease and resumed with events in its queue.

After a kill the standby writes the right value within Lease + 5 s. A frozen manager writes nothing after it is resumed,
by the audit log of a control plane of its own. The control is a manager without the guard (`may_write`): it does write,
which shows that the log has such writes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Iterator

import psutil
import pytest

from e2e.support import audit_log, fake_fleet, host_components, slo_config, waiting
from e2e.support.audit_log import Write
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_components import Account, Part
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import progress, standalone_control_plane
from tools.localcluster.standalone_control_plane import ControlPlane

LEASE = "koord-manager"
LEASE_SECONDS = 5.0
TIMES = (
    *("--lease-duration-seconds", LEASE_SECONDS),
    *("--renew-deadline-seconds", 4.0),
    *("--retry-period-seconds", 1.0),
)
NODES = [f"frozen-{index}" for index in range(10)]
AWAKE_SECONDS = 8
DEFAULT_LEASE_SECONDS = 15
TAKE_OVER_SECONDS = DEFAULT_LEASE_SECONDS + 5
UNGUARDED = """
import sys
from manager import __main__ as program
from manager import lease
lease.LeaderElector.may_write = lambda self: True
sys.exit(program.main(sys.argv[1:]))
"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """Run a control plane with an audit log."""
    with standalone_control_plane.running(audited=True) as running:
        host_components.prepare(running)
        yield running


@pytest.fixture
def cluster_client(plane: ControlPlane) -> Iterator[ClusterClient]:
    """Return a client of that control plane."""
    with contextlib.closing(ClusterClient(plane.kubeconfig)) as seeing:
        for name in NODES:
            host_components.add_node(seeing, name)
        host_components.configure(seeing, slo_config.BASE)
        yield seeing


def _candidate(
    plane: ControlPlane,
    cluster_client: ClusterClient,
    name: str,
    *,
    guarded: bool = True,
    times: tuple[object, ...] = TIMES,
) -> tuple[Part, Account]:
    account = Account(plane, cluster_client, name, plane.places.addresses.apiserver)
    if guarded:
        return Part(plane, name, account, "manager", "run", *times), account
    return Part(plane, name, account, UNGUARDED, "run", *times, run="-c"), account


def _holder(cluster_client: ClusterClient) -> str:
    return (cluster_client.find("Lease", LEASE, SUITE_NAMESPACE) or {"spec": {}})["spec"].get("holderIdentity") or ""


def _report(cluster_client: ClusterClient, cpu_millis: int) -> None:
    """Let every node report, so that every node offers something else."""
    for name in NODES:
        sound = fake_fleet.prod_status(
            cpu_millis=cpu_millis, memory_mib=8192, prod_cpu_millis=8000, prod_memory_mib=16 * 1024
        )
        fake_fleet.report(cluster_client, name, sound)


def _wait_offered(cluster_client: ClusterClient, cpu_millis: int) -> None:
    # The part between requests and peak, and half of the unrequested part (BASE).
    due = 8000 - cpu_millis + 4000
    for name in NODES:
        waiting.until(
            f"{name} offers {due}", lambda name=name: cluster_client.mid(name), lambda seen: seen and seen[0] == due
        )


def _freeze_and_thaw(plane: ControlPlane, cluster_client: ClusterClient, *, guarded: bool) -> tuple[list[Write], str]:
    """Return every write since the freeze, and the name of the frozen account."""
    leader, frozen = _candidate(plane, cluster_client, "first", guarded=guarded)
    waiting.until("it leads", lambda: _holder(cluster_client))
    before = _holder(cluster_client)
    _, successor = _candidate(plane, cluster_client, "second")
    _report(cluster_client, 4000)
    _wait_offered(cluster_client, 4000)
    process: psutil.Process = leader.ensure_running().process
    since = dt.datetime.now(dt.UTC)
    process.suspend()
    try:
        _report(cluster_client, 3000)
        waiting.until(
            "another leads", lambda: _holder(cluster_client), lambda seen: seen not in ("", before), within_seconds=30
        )
        _wait_offered(cluster_client, 3000)
        _report(cluster_client, 2000)  # two reports for each node wait for the resumed manager
        _wait_offered(cluster_client, 2000)
    finally:
        process.resume()
    process.wait(AWAKE_SECONDS)
    time.sleep(1)
    _wait_offered(cluster_client, 2000)
    seen = list(audit_log.writes(plane.places.audit_log, since))
    assert any(each.user == successor.user and each.target == "nodes/status" for each in seen)
    return seen, frozen.user


def _after_the_successors_first(seen: list[Write], frozen: str) -> list[Write]:
    own = [each for each in seen if each.user.startswith("system:serviceaccount:")]
    first = min(each.at for each in own if each.user != frozen and each.target != "leases")
    return [each for each in own if each.user == frozen and each.at > first]


def test_the_standby_writes_the_right_value_within_lease_and_five_seconds(
    plane: ControlPlane, cluster_client: ClusterClient
) -> None:
    leader, _ = _candidate(plane, cluster_client, "first", times=())
    waiting.until("it leads", lambda: _holder(cluster_client))
    _candidate(plane, cluster_client, "second", times=())
    _report(cluster_client, 4000)
    _wait_offered(cluster_client, 4000)
    leader.ensure_running().process.kill()
    began = time.monotonic()
    _report(cluster_client, 2000)
    _wait_offered(cluster_client, 2000)
    took = time.monotonic() - began
    progress.report(f"leader killed: {len(NODES)} nodes offer what their newest reports give after {took:.1f} s")
    assert 1 < took < TAKE_OVER_SECONDS


def test_it_writes_nothing_after_its_successors_first_write(plane: ControlPlane, cluster_client: ClusterClient) -> None:
    seen, frozen = _freeze_and_thaw(plane, cluster_client, guarded=True)
    assert not _after_the_successors_first(seen, frozen)


def test_without_the_guard_it_does_write(plane: ControlPlane, cluster_client: ClusterClient) -> None:
    seen, frozen = _freeze_and_thaw(plane, cluster_client, guarded=False)
    assert _after_the_successors_first(seen, frozen), "the control shows nothing: the log has no such write"
