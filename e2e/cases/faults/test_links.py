"""The connection to the apiserver fails in every manner: all three components detect it and catch up afterwards.

They run with a control plane of their own, and reach it through a proxy that fails on demand.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from e2e.support import host_components, mid_formula, slo_config, waiting
from e2e.support.apiserver_tcp_proxy import FlakyApiserverProxy
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.host_components import Account, Part
from tools.localcluster import progress, standalone_control_plane
from tools.localcluster.host import ports, processes
from tools.localcluster.standalone_control_plane import ControlPlane

NODE = "lone"
RECOVERED_SECONDS = 120
RESTORED_SECONDS = 330  # all list again after two silent watches; the manager restarts then
LOST_REVISIONS = 3000  # more than the suite writes within that time, so that no watch goes on by itself
TROUBLE_SECONDS = 16
MOST_REQUESTS_PER_SECOND = 8  # of all three parts
_INTERVALS = itertools.cycle((31, 32))
_NODES = itertools.count()

pytestmark = pytest.mark.timeout(600)


class Installed(NamedTuple):
    """The three components, and their connection to the apiserver."""

    plane: ControlPlane
    cluster_client: ClusterClient
    link: FlakyApiserverProxy
    account: Account
    manager: Part
    agent: Part
    extender: Part


@pytest.fixture(scope="module")
def suite() -> Iterator[Installed]:
    """Run the components for one node."""
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(standalone_control_plane.running())
        host_components.prepare(plane)
        cluster_client = stack.enter_context(contextlib.closing(ClusterClient(plane.kubeconfig)))
        link = FlakyApiserverProxy(plane.places.addresses.apiserver_port, plane.places.certificates / "ca.crt")
        stack.callback(link.close)
        account = Account(plane, cluster_client, "parts", link.url)
        host_components.add_node(cluster_client, NODE)
        host_components.configure(cluster_client, slo_config.BASE)
        manager = Part(plane, "manager", account, "manager", "run")
        agent = Part(plane, "koordlet", account, "koordlet", "run", "--node-name", NODE, "--state-dir", "")
        extender = Part(
            plane,
            "scheduler-plugin",
            account,
            "scheduler_plugin",
            "run",
            "--extender-port",
            ports.free_port(),
            "--debug-port",
            0,
        )
        installed = Installed(plane, cluster_client, link, account, manager, agent, extender)
        changed = _change(installed)
        _wait_followed(installed, changed, 120)
        yield installed


class Changed(NamedTuple):
    """The change that the components have to follow."""

    at: dt.datetime
    interval_seconds: int
    nodes: int


def _change(suite: Installed) -> Changed:
    """Edit the configuration, and add a node."""
    interval = next(_INTERVALS)
    host_components.add_node(suite.cluster_client, f"more-{next(_NODES)}")
    nodes = len(suite.cluster_client.list("Node"))
    slo_config.write(suite.cluster_client, slo_config.changed(metricReportIntervalSeconds=interval))
    return Changed(dt.datetime.now(dt.UTC).replace(microsecond=0), interval, nodes)


def _behind(suite: Installed, changed: Changed) -> list[str]:
    """Return the components that have not caught up yet."""
    suite.manager.ensure_running()
    seen = suite.cluster_client.node_metric(NODE)
    status = seen.get("status") or {}
    manager = seen["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == changed.interval_seconds
    agent = manager and status.get("observedGeneration") == seen["metadata"]["generation"]
    agent = agent and moment(status["updateTime"]) >= changed.at
    try:
        known = suite.extender.metric("koord_scheduler_plugin_tracked_objects", kind="nodes")
    except (OSError, LookupError):  # it is slow, or starts
        known = 0
    found = {"manager": manager, "koordlet": agent, "scheduler-plugin": known == changed.nodes}
    return [name for name, follows in found.items() if not follows]


def _wait_followed(suite: Installed, changed: Changed, within_seconds: float) -> dict[str, float]:
    """Wait until every part follows; how long each took."""
    began = time.monotonic()
    took: dict[str, float] = {}

    def behind_now() -> list[str]:
        behind = _behind(suite, changed)
        for part in {"manager", "koordlet", "scheduler-plugin"} - set(behind) - set(took):
            took[part] = round(time.monotonic() - began, 1)
        return behind

    waiting.until("every part follows", behind_now, lambda behind: not behind, within_seconds=within_seconds)
    return took


def _stays_behind(suite: Installed, changed: Changed, seconds: float) -> None:
    """Check that no component follows for so long: their data does come through the proxy."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert _behind(suite, changed) == ["manager", "koordlet", "scheduler-plugin"]
        time.sleep(0.5)


def _print_durations(fault: str, took: dict[str, float]) -> None:
    progress.report(f"{fault}: followed after {json.dumps(took)} s")


def test_silent_connections_are_detected_within_two_minutes(suite: Installed) -> None:
    suite.link.silence()
    changed = _change(suite)
    _stays_behind(suite, changed, 3)
    _print_durations("silent", _wait_followed(suite, changed, RECOVERED_SECONDS - 3))


def test_an_apiserver_that_is_killed_and_comes_back_is_followed_again(suite: Installed) -> None:
    _kill(suite.plane, "kube-apiserver")
    suite.plane.start_apiserver()
    _print_durations("restarted", _wait_followed(suite, _change(suite), RECOVERED_SECONDS))


def test_etcd_that_is_killed_and_comes_back_with_its_data_is_followed_again(suite: Installed) -> None:
    _kill(suite.plane, "etcd")
    waiting.until("the apiserver misses etcd", lambda: not _is_ready(suite), within_seconds=30)
    suite.plane.start_etcd()
    _print_durations("etcd restarted", _wait_followed(suite, _change(suite), RECOVERED_SECONDS))


def _is_ready(suite: Installed) -> bool:
    try:
        urllib.request.urlopen(f"{suite.link.url}/readyz", timeout=10).close()
    except urllib.error.HTTPError as missing:
        missing.close()
        return False
    return True


def _kill(plane: ControlPlane, name: str) -> None:
    process = processes.find(name, plane.places.processes)
    assert process is not None
    process.kill()
    process.wait(10)


def test_versions_that_were_compacted_are_listed_again(suite: Installed) -> None:
    lists = suite.extender.metric("koord_scheduler_plugin_watch_lists_total", watch="nodes")
    suite.link.refuse()
    changed = _change(suite)
    _stays_behind(suite, changed, 3)
    _compact(suite.plane)
    suite.plane.stop("kube-apiserver")  # it remembers more than etcd does
    suite.plane.start_apiserver()
    suite.link.recover()
    _print_durations("compacted", _wait_followed(suite, changed, RECOVERED_SECONDS))
    assert suite.extender.metric("koord_scheduler_plugin_watch_lists_total", watch="nodes") > lists


def _compact(plane: ControlPlane) -> None:
    revision = _call_etcd(plane, "range", {"key": "AA=="})["header"]["revision"]
    _call_etcd(plane, "compaction", {"revision": revision, "physical": True})


def _call_etcd(plane: ControlPlane, path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
    request = urllib.request.Request(f"{plane.places.addresses.etcd}/v3/kv/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        return dict(json.load(answer))


@pytest.mark.timeout(1200)
def test_an_older_state_of_etcd_replaces_the_known_one(suite: Installed) -> None:
    """As after a restore from a backup: what was written since the copy is gone, and versions are smaller."""
    data, copy = suite.plane.places.state / "etcd", suite.plane.places.state / "etcd-copy"
    with _storage_away(suite.plane):
        shutil.copytree(data, copy)
    for _ in range(LOST_REVISIONS):
        _call_etcd(suite.plane, "put", {"key": "bG9zdA==", "value": "bG9zdA=="})
    for _ in range(2):  # one more node than is added afterwards: the extender has to forget one
        lost = _change(suite)
        _wait_followed(suite, lost, RECOVERED_SECONDS)
    with _storage_away(suite.plane):
        shutil.rmtree(data)
        copy.rename(data)
    changed = _change(suite)
    assert changed.nodes == lost.nodes - 1
    _print_durations("etcd restored", _wait_followed(suite, changed, RESTORED_SECONDS))
    waiting.until("every node has a NodeMetric, and nothing else has one", lambda: _nodes_without_pair(suite),
                  lambda names: not names)  # fmt: skip
    mid_formula.wait_published(suite.cluster_client, NODE, within_seconds=changed.interval_seconds + 45)


@contextlib.contextmanager
def _storage_away(plane: ControlPlane) -> Iterator[None]:
    """Stop etcd and the apiserver, which would otherwise keep the newer state in its cache; start both afterwards."""
    plane.stop("kube-apiserver")
    plane.stop("etcd")
    try:
        yield
    finally:
        plane.start_etcd()
        plane.start_apiserver()


def _nodes_without_pair(suite: Installed) -> set[str]:
    """Return the names that only a Node or only a NodeMetric has."""
    nodes, metrics = (
        {each["metadata"]["name"] for each in suite.cluster_client.list(kind)} for kind in ("Node", "NodeMetric")
    )
    return nodes ^ metrics


def test_an_apiserver_that_returns_only_errors_gets_few_requests(suite: Installed) -> None:
    before = suite.link.requests_answered
    suite.link.answer(429)
    changed = _change(suite)
    _stays_behind(suite, changed, TROUBLE_SECONDS / 2)
    suite.link.answer(500)
    _stays_behind(suite, changed, TROUBLE_SECONDS / 2)
    requests = suite.link.requests_answered - before
    suite.link.recover()
    _print_durations(f"429 and 500, {requests} requests", _wait_followed(suite, changed, RECOVERED_SECONDS))
    assert 0 < requests < MOST_REQUESTS_PER_SECOND * TROUBLE_SECONDS


def test_a_token_that_ends_is_replaced_by_the_one_in_the_file(suite: Installed) -> None:
    old = suite.account.token()
    assert _is_accepted(suite, old)
    suite.account.renew()
    waiting.until("the old token is refused", lambda: not _is_accepted(suite, old), within_seconds=30)
    suite.link.refuse()  # the watches, which were granted under the old one
    suite.link.recover()
    _print_durations("token", _wait_followed(suite, _change(suite), RECOVERED_SECONDS))


def _is_accepted(suite: Installed, token: str) -> bool:
    request = urllib.request.Request(f"{suite.link.url}/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code != 401
    return True
