"""The time that a report asks to wait before the next one: only what the apiserver asked for."""

from __future__ import annotations

import pytest

from koordlet.report import writer
from tests.fakes import apiserver
from tests.koordlet.report.test_writer import PATH, refused, send, stored


@pytest.mark.parametrize("answer", [stored("8"), refused(403, "Forbidden"), refused(404, "NotFound")])
async def test_an_answer_without_a_time_asks_for_no_wait(answer):
    async with apiserver.running() as server:
        server.on("PUT", f"{PATH}/status", answer)
        assert (await send(server)).retry_after_seconds == 0


async def test_an_apiserver_that_is_away_asks_for_no_wait():
    async with apiserver.running() as server:
        pass
    sent = await send(server)
    assert (sent.outcome, sent.retry_after_seconds) == (writer.Outcome.UNREACHABLE, 0)
