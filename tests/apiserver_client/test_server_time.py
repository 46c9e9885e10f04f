"""Clock of the apiserver, as its last answer states it."""

import datetime as dt

import pytest

from apiserver_client import objects, resources
from tests.fakes import apiserver

NODE = "/api/v1/nodes/n"


def dated(*dates):
    return apiserver.Answer({"metadata": {"name": "n"}}, headers=tuple(("Date", each) for each in dates))


async def test_the_clock_of_the_apiserver_is_that_of_its_last_answer(server):
    server.on("GET", NODE, dated("Wed, 21 Oct 2026 07:28:00 GMT"), dated("Wed, 21 Oct 2026 09:28:01 +0200"))
    async with server.session() as api:
        assert api.server_time is None
        for second in (0, 1):
            await objects.get(api, resources.NODES, "n")
            assert api.server_time == dt.datetime(2026, 10, 21, 7, 28, second, tzinfo=dt.UTC)
            assert api.server_time.utcoffset() == dt.timedelta(0)


@pytest.mark.parametrize("dates", [[], ["yesterday"], [""]])
async def test_an_answer_without_a_readable_time_states_none(server, dates):
    server.on("GET", NODE, dated("Wed, 21 Oct 2026 07:28:00 GMT"), dated(*dates))
    async with server.session() as api:
        for _ in range(2):
            await objects.get(api, resources.NODES, "n")
        assert api.server_time is None
