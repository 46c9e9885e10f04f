"""Requests for the Lease end within the time that a leader has for them."""

import contextlib

from apiserver_client import session
from manager.leader_election import elector
from tests.fakes import cluster
from tests.manager.leader_election.test_runner import SETTINGS, Candidate


async def test_a_request_for_the_lease_ends_after_two_retry_periods_and_its_connect_after_one(monkeypatch):
    connect, given = session.connect, []

    @contextlib.asynccontextmanager
    async def recorded(to, **more):
        given.append(more["timeouts"])
        async with connect(to, **more) as api:
            yield api

    monkeypatch.setattr(session, "connect", recorded)
    async with cluster.running() as server:
        candidate = Candidate(server, "first")
        await candidate.until(elector.Role.LEADER)
        await candidate.stop()
    assert SETTINGS.retry_period_seconds == 0.1
    assert given == [session.Timeouts(connect=0.1, read=0.2, request=0.2)]
