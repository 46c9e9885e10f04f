"""How long `koordctl check` waits for a fault to go, on a clock that only its pauses move."""

import datetime as dt

import click
import pytest

from apiserver_client import session
from koordctl.check import command
from tests.fakes import cluster
from tests.koordctl.parsing import parsed

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


async def checked(server, flags, after_pause=lambda _count: None):
    """Check what is there before an installation; return the exit code, the pauses, and what was reported."""
    slept, reported = [], []

    async def sleep(seconds):
        slept.append(seconds)
        assert len(slept) < 10
        after_pause(len(slept))

    options = parsed(["check", "--pre", *flags])
    async with session.connect(server.connection(), user_agent="test/1") as api:
        now = lambda: 100 + sum(slept)  # noqa: E731
        answer = await command.check(api, options, lambda: NOW, sleep, reported.append, monotonic=now)
    return answer.exit_code, slept, reported


@pytest.mark.parametrize(("flags", "pauses"), [((), []), (("--wait=6s",), [3, 3]), (("--wait=7s",), [3, 3, 1])])
async def test_a_fault_that_stays_is_the_answer_when_the_time_is_over(flags, pauses):
    async with cluster.running() as server:
        server.version = "v1.20.0"
        code, slept, reported = await checked(server, flags)
    assert (code, slept) == (1, pauses)
    left = [sum(pauses[number:]) for number in range(len(pauses))]
    assert reported == [f"waiting for KubernetesVersion: {seconds} s left" for seconds in left]


async def test_a_fault_that_goes_ends_the_waiting():
    async with cluster.running() as server:
        server.version = "v1.20.0"

        def upgrade(pauses):
            server.version = "v1.34.0" if pauses == 2 else "v1.20.0"

        code, slept, _ = await checked(server, ("--wait=1m",), upgrade)
    assert (code, slept) == (0, [3, 3])


async def test_without_a_fault_nothing_is_waited_for():
    async with cluster.running() as server:
        assert await checked(server, ("--wait=1m",)) == (0, [], [])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("7", 7), ("90s", 90), ("1.5s", 1.5), ("2m", 120), ("60m", 3600), ("1h", 3600), ("0.5h", 1800)],
)
def test_a_time_to_wait_has_a_unit_or_is_in_seconds(text, seconds):
    assert command.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "3601", "61m", "1.001h", "1d", "1m30s", "s"])
def test_a_time_to_wait_is_at_most_an_hour(text):
    with pytest.raises(click.BadParameter, match="want a time such as 90s or 2m, at most 1h"):
        command.duration(text)
