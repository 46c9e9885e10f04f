"""Candidates over a Lease in a cluster in memory; clocks are the test's."""

import contextlib
import datetime as dt

import pytest

from apiserver_client import session
from manager.leader_election.elector import LeaderElector, Role
from manager.settings import ManagerSettings
from tests.fakes import cluster

SETTINGS = ManagerSettings(lease_duration_seconds=15, renew_deadline_seconds=10, retry_period_seconds=2)


class Clock:
    seconds = 1000.0

    def __call__(self):
        return self.seconds


@contextlib.asynccontextmanager
async def candidates(*names):
    clock = Clock()
    async with (
        cluster.running() as server,
        session.connect(server.connection(), user_agent="test/1") as api,
    ):
        made = [
            LeaderElector(SETTINGS, name, clock=clock, now=lambda: dt.datetime(2026, 11, 21, tzinfo=dt.UTC))
            for name in names
        ]
        yield clock, server, api, *made


async def test_who_was_frozen_may_not_write_when_it_wakes_before_it_has_looked_at_the_lease():
    async with candidates("first", "second") as (clock, _, api, first, second):
        assert await first.look(api) is Role.LEADER
        assert first.may_write()
        assert await second.look(api) is Role.STANDBY
        clock.seconds += 10.1
        assert not first.may_write()
        clock.seconds += 5
        assert await second.look(api) is Role.LEADER
        assert second.may_write()
        assert not first.may_write()
        assert await first.look(api) is Role.LOST


async def test_who_leads_and_finds_the_lease_free_has_lost_it():
    async with candidates("frozen", "between") as (clock, _, api, frozen, between):
        await frozen.look(api)
        await between.look(api)
        clock.seconds += 16
        await between.look(api)
        await between.release(api)
        assert await frozen.look(api) is Role.LOST  # somebody may have led meanwhile


async def test_the_time_of_a_renewal_is_when_it_was_asked_for():
    async with candidates("slow") as (clock, _, api, slow):
        await slow.look(api)
        sent = api.send

        async def late(*given, **more):
            answer = await sent(*given, **more)
            clock.seconds += 6
            return answer

        api.send = late
        assert await slow.look(api) is Role.LEADER
        assert not slow.may_write()  # twice six seconds ago


@pytest.mark.parametrize("refused", ["GET", "PUT"])
async def test_who_cannot_renew_goes_on_until_the_deadline_and_no_longer(refused):
    async with candidates("cut-off") as (clock, server, api, cut_off):
        await cut_off.look(api)
        server.refuse[refused, "leases"] = cluster.Refusal(503, "ServiceUnavailable")
        clock.seconds += 9
        assert await cut_off.look(api) is Role.LEADER
        assert cut_off.may_write()
        clock.seconds += 2
        assert not cut_off.may_write()
        assert await cut_off.look(api) is Role.LOST
        assert "503" in (cut_off.last_error or "")


async def test_a_lease_that_is_given_up_is_free_at_once():
    async with candidates("first", "second") as (_, server, api, first, second):
        await first.look(api)
        await first.release(api)
        assert server.get("leases", "koord-manager", "koordinator-system")["spec"]["holderIdentity"] == ""
        assert await second.look(api) is Role.LEADER
