import asyncio
import threading

import pytest

from manager.leader_election.elector import Role
from manager.leader_election.runner import LeaderElection
from manager.settings import ManagerSettings
from tests.fakes import cluster

SETTINGS = ManagerSettings(lease_duration_seconds=2.0, renew_deadline_seconds=0.6, retry_period_seconds=0.1)
LEASE = ("leases", "koord-manager", "koordinator-system")


@pytest.fixture
async def server():
    async with cluster.running() as made:
        yield made


class Candidate:
    def __init__(self, server, name):
        self.roles = []
        self.died = threading.Event()
        self.election = LeaderElection(
            server.connection(), SETTINGS, name, self.roles.append, die=lambda _code: self.died.set()
        )
        self.election.start()

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


async def test_a_leader_that_cannot_renew_stops_before_another_may_acquire(server):
    candidate = Candidate(server, "cut-off")
    await candidate.until(Role.LEADER)
    server.refuse["PUT", "leases"] = cluster.Refusal(403, "Forbidden", "koord-manager")
    await candidate.until(Role.LOST)
    await candidate.stop()
    assert not candidate.died.is_set()
    assert candidate.election.elector.last_error is not None
    assert "grant it by RBAC" in candidate.election.elector.last_error
