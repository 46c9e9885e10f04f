import asyncio
import dataclasses
import threading

import pytest

from manager.lease import LeaderElection, LeaderElector, Role
from manager.settings import ManagerSettings
from tests.fakes import apiserver, cluster, link

SETTINGS = ManagerSettings(lease_duration_seconds=2.0, renew_deadline_seconds=0.6, retry_period_seconds=0.1)
LEASE = ("leases", "koord-manager", "koordinator-system")


@pytest.fixture
async def server():
    async with cluster.running() as made:
        yield made


class Candidate:
    def __init__(self, server, name, *, through=None, settings=SETTINGS, happened=None):
        """Start a candidate, which reaches the server `through` a link; `happened` gets what it becomes."""
        self.name = name
        self.roles = []
        self.happened = [] if happened is None else happened
        self.died = threading.Event()
        to = server.connection()
        self.election = LeaderElection(
            to if through is None else dataclasses.replace(to, server=through.url),
            settings, name, self.changed, die=self.die,
        )  # fmt: skip
        self.election.start()

    def changed(self, role):
        self.roles.append(role)
        self.happened.append((self.name, role))

    def die(self, _code):
        self.died.set()
        self.happened.append((self.name, "killed"))

    async def until(self, role):
        async with asyncio.timeout(10):
            while role not in self.roles:
                await asyncio.sleep(0.01)

    async def stop(self):
        await asyncio.to_thread(self.election.stop)


def attempts_without_a_write(server):
    methods = [request.method for request in server.requests if "/leases" in request.path]
    return methods.count("GET") - methods.count("PUT") - methods.count("POST")


async def test_the_second_candidate_is_standby_until_the_first_releases(server):
    first = Candidate(server, "first")
    await first.until(Role.LEADER)
    second = Candidate(server, "second")
    async with asyncio.timeout(10):
        while attempts_without_a_write(server) < 4:  # the first may be one of the leader, which writes after each
            await asyncio.sleep(0.01)
    assert second.roles == []
    assert second.election.elector.silence_seconds() < 2
    await first.stop()
    assert first.roles == [Role.LEADER, Role.STOPPED]
    await second.until(Role.LEADER)
    assert server.get(*LEASE)["spec"]["holderIdentity"] == "second"
    await second.stop()
    assert server.get(*LEASE)["spec"]["holderIdentity"] == ""


async def test_a_candidate_leads_when_the_lease_of_a_dead_leader_has_expired(server):
    server.add("leases", {
        "metadata": {"name": "koord-manager"},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 1, "leaseTransitions": 4},
    }, "koordinator-system")  # fmt: skip
    candidate = Candidate(server, "next")
    await candidate.until(Role.LEADER)
    assert server.get(*LEASE)["spec"]["leaseTransitions"] == 5
    await candidate.stop()


async def test_a_leader_whose_lease_was_taken_is_killed_if_it_does_not_exit(server):
    candidate = Candidate(server, "robbed")
    await candidate.until(Role.LEADER)
    server.patch("leases", "koord-manager", {"spec": {"holderIdentity": "thief"}}, "koordinator-system")
    await candidate.until(Role.LOST)
    assert candidate.roles == [Role.LEADER, Role.LOST]
    await asyncio.to_thread(candidate.died.wait, 10)
    assert candidate.died.is_set()


@pytest.mark.parametrize("how", [apiserver.HANG, apiserver.ABORT], ids=["silent", "reset"])
@pytest.mark.slow
async def test_a_leader_that_is_cut_off_has_ended_before_another_leads(server, how):
    settings = SETTINGS.model_copy(update={"lease_duration_seconds": 3.0})
    happened = []
    async with link.to(server.url) as own:
        first = Candidate(server, "cut-off", through=own, settings=settings, happened=happened)
        await first.until(Role.LEADER)
        second = Candidate(server, "next", settings=settings, happened=happened)
        await asyncio.sleep(0.3)
        own.cut(how)
        await second.until(Role.LEADER)
        assert happened == [
            ("cut-off", Role.LEADER),
            ("cut-off", Role.LOST),
            ("cut-off", "killed"),
            ("next", Role.LEADER),
        ], "a process that has lost the Lease has ended before the next one leads"
        assert server.get(*LEASE)["spec"]["holderIdentity"] == "next"
        await second.stop()
        await first.stop()


async def test_a_leader_that_may_not_renew_loses_the_lease_and_names_the_missing_rule(server):
    candidate = Candidate(server, "cut-off")
    await candidate.until(Role.LEADER)
    server.refuse["PUT", "leases"] = cluster.Refusal(403, "Forbidden", "koord-manager")
    await candidate.until(Role.LOST)
    await candidate.stop()
    assert not candidate.died.is_set()
    assert candidate.election.elector.last_error is not None
    assert "grant it by RBAC" in candidate.election.elector.last_error


async def test_an_unexpected_error_loses_the_lease_and_ends_the_process(server, monkeypatch, caplog):
    monkeypatch.setattr(LeaderElector, "try_acquire_or_renew", lambda *_: 1 / 0)
    candidate = Candidate(server, "broken")
    await candidate.until(Role.LOST)
    assert candidate.election.elector.role is Role.LOST
    assert await asyncio.to_thread(candidate.died.wait, 10)
    assert candidate.roles == [Role.LOST]
    assert "ZeroDivisionError" in caplog.text
