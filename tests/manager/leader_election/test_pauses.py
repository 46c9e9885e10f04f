"""Pauses between attempts to acquire or renew the Lease where the retry period is short."""

import datetime as dt

import pytest

from apiserver_client import session
from manager.leader_election.elector import LeaderElector, Role
from manager.settings import ManagerSettings
from tests.fakes import apiserver, cluster

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


async def test_after_an_answer_nothing_is_left_of_the_pause_that_an_error_asked_for():
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    held = {"metadata": {"name": SETTINGS.lease}, "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}}
    busy = apiserver.status(429, "TooManyRequests", retry_after="3")
    async with apiserver.running() as server, server.session() as api:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{SETTINGS.namespace}/leases/{SETTINGS.lease}"
        server.on("GET", path, busy, apiserver.Answer(held))
        elector = LeaderElector(SETTINGS, "first", clock=lambda: 1000.0, now=lambda: now)
        pauses = []
        for _ in range(2):
            assert await elector.try_acquire_or_renew(api) is Role.STANDBY
            pauses.append(elector.pause_seconds())
    assert pauses == [3.0, 0.25]
    assert elector.last_error is None
