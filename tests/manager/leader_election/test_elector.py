"""Candidates for a Lease in a cluster in memory; the test controls the clocks."""

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
