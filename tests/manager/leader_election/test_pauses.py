"""Pauses between attempts to acquire or renew the Lease where the retry period is short."""

import datetime as dt

import pytest

from apiserver_client import session
from manager.leader_election.elector import LeaderElector, Role
from manager.settings import ManagerSettings
from tests.fakes import cluster

SETTINGS = ManagerSettings(retry_period_seconds=0.25)


@pytest.mark.parametrize("lead_first", [False, True])
async def test_after_an_error_that_asks_for_no_pause_the_pause_is_the_retry_period(lead_first):
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        elector = LeaderElector(SETTINGS, "first", clock=lambda: 1000.0, now=lambda: now)
        if lead_first:
            await elector.try_acquire_or_renew(api)
        server.refuse["GET", "leases"] = cluster.Refusal(503, "ServiceUnavailable")
        assert await elector.try_acquire_or_renew(api) is (Role.LEADER if lead_first else Role.STANDBY)
        assert "503" in elector.last_error
        assert elector.pause_seconds() == 0.25
