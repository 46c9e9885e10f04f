"""The manager as a process, in the thread of the test, against a cluster in memory: its role, probes and exit code."""

import gc
import logging
import os
import re
import signal
import threading

import httpx2
import pytest

from apiserver_client import backoff, connection
from manager import leader, program
from manager.cache import kopf_thread, object_watches
from manager.lease import LeaderElection, LeaderElector, Role
from manager.program import Program
from manager.settings import ManagerSettings
from tests.fakes import cluster
from tests.manager import in_process
from tests.manager.in_process import get, run, until

pytestmark = pytest.mark.slow

NAME, NAMESPACE = "koord-manager", "koordinator-system"
LEASE = ("leases", NAME, NAMESPACE)
OF_ANOTHER = {"metadata": {"name": NAME}, "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600}}


@pytest.fixture(autouse=True)
def died(monkeypatch):
    """Undo what the program does to its process; let nothing kill it, and return the exit codes of what would."""
    codes = []
    monkeypatch.setattr(kopf_thread, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(program, "_SIGNAL_POLL_SECONDS", 0.02)
    monkeypatch.setitem(LeaderElection.__init__.__kwdefaults__, "die", codes.append)
    with in_process.restored():
        yield codes


@pytest.fixture
def served():
    with in_process.serving(cluster.running()) as made:
        yield made


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO)
    return caplog


def program_of(to, made=Program, **chosen):
    """Return a program with the settings, also such that are below the least: tests do not wait."""
    given = {"http_address": "127.0.0.1", "http_port": 0, "retry_period_seconds": 0.05, **chosen}
    return made(ManagerSettings().model_copy(update=given), to)


def page(manager, path):
    return get(manager._endpoint.port, path)


def holder(served):
    return served.server.get(*LEASE)["spec"]["holderIdentity"]


def leads(manager, served):
    """Check that it leads and watches everything: kopf takes seconds to end while it starts."""
    watched = {each.path.rsplit("/", 1)[-1] for each in served.server.requests if each.method == "WATCH"}
    return "configmaps" in watched and page(manager, "/readyz") == (200, "leader")


def metric(manager, name):
    _, text = page(manager, "/metrics")
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])


def has_ended(manager):
    """Check that neither the endpoint nor the thread of the election runs."""
    with pytest.raises(httpx2.ConnectError):
        page(manager, "/healthz")
    assert "leader-election" not in {thread.name for thread in threading.enumerate()}
    return True


@pytest.mark.parametrize("stop", in_process.STOP)
def test_it_leads_until_a_signal_and_then_releases_the_lease_and_returns_0(served, log, stop):
    manager = program_of(served.server.connection())

    def script():
        until(lambda: leads(manager, served))
        assert holder(served) == manager._identity
        assert page(manager, "/healthz") == (200, "alive as leader")
        assert metric(manager, "koord_manager_leader") == 1
        assert gc.get_freeze_count() > 0, "a full collection leaves out what the imports made"

    assert run(manager.run, script, stop) == 0
    assert "leading" in log.messages
    assert holder(served) == ""
    assert has_ended(manager)


def test_the_metrics_of_the_process_are_exported_without_times_of_creation(served):
    manager = program_of(served.server.connection())
    seen = []

    def script():
        until(lambda: leads(manager, served))
        until(lambda: metric(manager, 'koord_manager_watch_events_total{watch="nodes"}') >= 0)
        seen.append(page(manager, "/metrics")[1])

    run(manager.run, script)
    for name in ("process_resident_memory_bytes", "python_info", "python_gc_collections_total"):
        assert re.search(rf"^{name}\b.* \S+$", seen[0], re.MULTILINE)
    assert "_created" not in seen[0]


def test_a_candidate_beside_a_leader_is_ready_and_ends_with_0_without_leading(served, log):
    served.call(served.server.add, "leases", OF_ANOTHER, NAMESPACE)
    manager = program_of(served.server.connection())

    def attempts():
        return [each for each in served.server.requests if each.method == "GET" and "/leases" in each.path]

    def script():
        until(lambda: len(attempts()) > 3)
        assert page(manager, "/readyz") == (200, "standby")
        assert page(manager, "/healthz") == (200, "alive as standby")
        assert metric(manager, "koord_manager_leader") == 0

    assert run(manager.run, script) == 0
    assert "leading" not in log.messages
    assert (holder(served), served.server.writes) == ("another", [])
    assert has_ended(manager)


def test_a_signal_that_arrives_with_the_lease_starts_no_leader(served, log):
    class Signalled(Program):
        def _on_role(self, role):
            if role is Role.LEADER:
                os.kill(os.getpid(), signal.SIGTERM)
                assert self._stop.wait(10)
            super()._on_role(role)

    manager = program_of(served.server.connection(), Signalled)
    assert run(manager.run, lambda: None, stop=None) == 0
    assert "leading" not in log.messages
    assert holder(served) == ""
    assert {each.path.rsplit("/", 2)[-2] for each in served.server.requests} <= {"leases", NAMESPACE}


def test_a_leader_whose_lease_is_taken_ends_by_itself_with_1_and_leaves_the_lease(served, log, died):
    manager = program_of(served.server.connection())

    def script():
        until(lambda: leads(manager, served))
        served.call(served.server.patch, "leases", NAME, {"spec": {"holderIdentity": "thief"}}, NAMESPACE)

    assert run(manager.run, script, stop=None) == 1
    assert died == []
    assert holder(served) == "thief"
    assert any(text.startswith(f"lost lease {NAME}") for text in log.messages)
    assert has_ended(manager)


def test_an_unexpected_error_of_the_election_ends_the_process_with_1(served, monkeypatch, died):
    async def fails(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr(LeaderElector, "try_acquire_or_renew", fails)
    manager = program_of(served.server.connection())
    assert run(manager.run, lambda: None, stop=None) == 1
    assert died == []
    assert has_ended(manager)


@pytest.mark.parametrize("at_once", [False, True])
def test_an_unexpected_error_of_the_leader_ends_the_process_with_1_and_is_logged_itself(
    served, log, monkeypatch, at_once
):
    """An error of a task comes in a group; that of the first statement does not."""

    async def fails(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr(leader, *("lead", fails) if at_once else ("_read_config", fails))
    manager = program_of(served.server.connection())
    assert run(manager.run, lambda: None, stop=None) == 1
    logged = [text for text in log.messages if text.startswith("exiting: ")]
    assert logged == ["exiting: unexpected error: RuntimeError: boom"]
    assert holder(served) == "", "the next leader need not wait"
    assert has_ended(manager)


def test_a_leader_is_alive_and_not_ready_until_it_can_read_the_nodes(served, monkeypatch):
    monkeypatch.setattr(object_watches, "RETRIES", backoff.Backoff(0.1, 0.1))
    served.server.refuse["GET", "nodes"] = cluster.Refusal(403, "Forbidden")
    manager = program_of(served.server.connection())

    def script():
        until(lambda: "resources: [nodes]" in page(manager, "/readyz")[1])
        code, text = page(manager, "/readyz")
        assert (code, text.startswith("leader, not working: ")) == (503, True)
        assert page(manager, "/healthz") == (200, "alive as leader")
        del served.server.refuse["GET", "nodes"]
        until(lambda: leads(manager, served))

    assert run(manager.run, script) == 0


def test_a_leader_whose_kopf_has_ended_is_not_alive(served):
    manager = program_of(served.server.connection())

    def script():
        until(lambda: leads(manager, served))
        assert page(manager, "/healthz") == (200, "alive as leader")
        thread = manager._leadership.kopf
        thread.stop.set()
        until(lambda: not thread.is_alive())
        assert page(manager, "/healthz") == (503, "kopf has ended: no edit of the ConfigMap is seen")

    assert run(manager.run, script) == 0


def test_a_candidate_that_cannot_reach_the_lease_is_alive_and_not_ready_and_names_the_error(closed_port):
    to = connection.Connection(server=f"http://127.0.0.1:{closed_port}", origin="the test")
    manager = program_of(to, lease_duration_seconds=0.2)

    def script():
        until(lambda: page(manager, "/readyz")[0] == 503)
        until(lambda: manager._elector.last_error)
        code, text = page(manager, "/readyz")
        assert (code, text.startswith("cannot reach the Lease for ")) == (503, True)
        assert text.endswith(manager._elector.last_error)
        assert page(manager, "/healthz") == (200, "alive as standby")

    assert run(manager.run, script) == 0


def test_without_the_thread_of_the_election_it_is_neither_alive_nor_ready(closed_port):
    to = connection.Connection(server=f"http://127.0.0.1:{closed_port}", origin="the test")
    manager = program_of(to, lease_duration_seconds=0.0)
    manager._endpoint.start()
    try:
        assert page(manager, "/healthz") == (503, "the leader election has ended")
        until(lambda: page(manager, "/readyz")[0] == 503)
        assert page(manager, "/readyz")[1].startswith("cannot reach the Lease for ")
    finally:
        manager._endpoint.stop()
