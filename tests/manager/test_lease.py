"""Candidates for a Lease in a cluster in memory; the test controls the clocks."""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import threading

import pytest

from apiserver_client import session
from manager.lease import LeaderElection, LeaderElector, Role
from manager.settings import ManagerSettings
from tests.fakes import apiserver, cluster, link

SETTINGS = ManagerSettings(lease_duration_seconds=15, renew_deadline_seconds=10, retry_period_seconds=2)


class Clock:
    seconds = 1000.0

    def __call__(self):
        return self.seconds


@contextlib.asynccontextmanager
async def candidates(*names):
    clock = Clock()
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        made = [
            LeaderElector(SETTINGS, name, clock=clock, now=lambda: dt.datetime(2026, 11, 21, tzinfo=dt.UTC))
            for name in names
        ]
        yield clock, server, api, *made


async def test_a_resumed_process_may_not_write_before_it_has_read_the_lease():
    async with candidates("first", "second") as (clock, _, api, first, second):
        assert await first.try_acquire_or_renew(api) is Role.LEADER
        assert first.may_write()
        assert await second.try_acquire_or_renew(api) is Role.STANDBY
        clock.seconds += 10.1
        assert not first.may_write()
        clock.seconds += 5
        assert await second.try_acquire_or_renew(api) is Role.LEADER
        assert second.may_write()
        assert not first.may_write()
        assert await first.try_acquire_or_renew(api) is Role.LOST


async def test_a_leader_that_finds_the_lease_free_has_lost_it():
    async with candidates("frozen", "between") as (clock, _, api, frozen, between):
        await frozen.try_acquire_or_renew(api)
        await between.try_acquire_or_renew(api)
        clock.seconds += 16
        await between.try_acquire_or_renew(api)
        await between.release(api)
        assert await frozen.try_acquire_or_renew(api) is Role.LOST  # another process may have led meanwhile


@pytest.mark.parametrize("refused", ["GET", "PUT"])
async def test_a_leader_that_cannot_renew_continues_until_the_deadline(refused):
    async with candidates("cut-off") as (clock, server, api, cut_off):
        await cut_off.try_acquire_or_renew(api)
        server.refuse[refused, "leases"] = cluster.Refusal(503, "ServiceUnavailable")
        clock.seconds += 9
        assert await cut_off.try_acquire_or_renew(api) is Role.LEADER
        assert cut_off.may_write()
        clock.seconds += 2
        assert not cut_off.may_write()
        assert await cut_off.try_acquire_or_renew(api) is Role.LOST
        assert "503" in (cut_off.last_error or "")


async def test_a_released_lease_can_be_acquired_at_once():
    async with candidates("first", "second") as (_, server, api, first, second):
        await first.try_acquire_or_renew(api)
        await first.release(api)
        assert server.get("leases", "koord-manager", "koordinator-system")["spec"]["holderIdentity"] == ""
        assert await second.try_acquire_or_renew(api) is Role.LEADER


async def refused_with(retry_after_seconds, *, lead_first):
    """Return the elector after a refusal, and its clock."""
    async with candidates("first") as (clock, _, api, first):
        if lead_first:
            await first.try_acquire_or_renew(api)
    async with apiserver.running() as server, server.session() as api:
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{SETTINGS.namespace}/leases/{SETTINGS.lease}"
        server.on("GET", lease, apiserver.status(429, "TooManyRequests", retry_after=retry_after_seconds))
        await first.try_acquire_or_renew(api)
    return clock, first


@pytest.mark.parametrize(("asked", "pause"), [("1", 2), ("5", 5), ("50", 15)])
async def test_a_candidate_waits_as_the_apiserver_asks_up_to_a_lease_duration(asked, pause):
    _clock, first = await refused_with(asked, lead_first=False)
    assert (first.role, first.pause_seconds()) == (Role.STANDBY, pause)


@pytest.mark.parametrize(("asked", "pause"), [("1", 2), ("5", 5), ("50", 6)])
async def test_a_leader_waits_as_the_apiserver_asks_and_leaves_time_for_a_request_before_its_deadline(asked, pause):
    clock, first = await refused_with(asked, lead_first=True)
    assert (first.role, first.pause_seconds()) == (Role.LEADER, pause)
    clock.seconds += 7
    assert first.pause_seconds() == 2


@pytest.mark.parametrize("expired", [False, True])
async def test_a_candidate_that_another_one_precedes_waits_on(expired):
    """Between its read and its write another candidate has acquired the Lease."""
    name, namespace = SETTINGS.lease, SETTINGS.namespace
    async with candidates("late") as (clock, server, api, late):
        if expired:
            server.add("leases", {"metadata": {"name": name}, "spec": {"holderIdentity": "dead"}}, namespace)
            assert await late.try_acquire_or_renew(api) is Role.STANDBY
            clock.seconds += 1

        def precede(_):
            spec = {"holderIdentity": "fast", "leaseDurationSeconds": 15}
            if expired:
                server.patch("leases", name, {"spec": spec}, namespace)
            else:
                server.add("leases", {"metadata": {"name": name}, "spec": spec}, namespace)

        server.on_write = precede
        assert await late.try_acquire_or_renew(api) is Role.STANDBY
        assert not late.may_write()
        assert late.last_error is None
        assert server.get("leases", name, namespace)["spec"]["holderIdentity"] == "fast"


QUICK_SETTINGS = ManagerSettings(lease_duration_seconds=2.0, renew_deadline_seconds=0.6, retry_period_seconds=0.1)
LEASE = ("leases", "koord-manager", "koordinator-system")


@pytest.fixture
async def server():
    async with cluster.running() as made:
        yield made


class Candidate:
    def __init__(self, server, name, *, through=None, settings=QUICK_SETTINGS, happened=None):
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
    settings = QUICK_SETTINGS.model_copy(update={"lease_duration_seconds": 3.0})
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


async def test_a_renewal_counts_from_the_start_of_its_request():
    async with candidates("slow") as (clock, _, api, slow):
        await slow.try_acquire_or_renew(api)
        sent = api.send

        async def late(*given, **more):
            answer = await sent(*given, **more)
            clock.seconds += 6
            return answer

        api.send = late
        assert await slow.try_acquire_or_renew(api) is Role.LEADER
        assert not slow.may_write()  # twice six seconds ago
