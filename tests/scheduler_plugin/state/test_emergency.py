"""The watch of midEmergency, against a scripted apiserver."""

import asyncio
import contextlib
import json

import pytest

from apiserver_client import session
from scheduler_plugin.state import emergency
from tests.fakes import cluster
from tests.scheduler_plugin import factories

NAMESPACE = "koordinator-system"
KEY = ("configmaps", emergency.CONFIG_MAP)


def data(document):
    return {"data": {"colocation-config": document if isinstance(document, str) else json.dumps(document)}}


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_freezes_and_thaws_within_a_moment_and_ignores_what_is_not_valid(monkeypatch):
    columns = factories.parts().vectors
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        watch, applied = emergency.EmergencyWatch(api, columns, NAMESPACE), []
        monkeypatch.setattr(watch, "_apply", lambda event, apply=watch._apply: (apply(event), applied.append(event)))
        following = asyncio.create_task(watch.run())
        server.add("configmaps", {"metadata": {"name": KEY[1]}, **data({"midEmergency": "none"})}, NAMESPACE)
        server.add("configmaps", {"metadata": {"name": "other"}, **data({"midEmergency": "drain"})}, NAMESPACE)
        for value, frozen in (("freeze", True), ("none", False), ("drain", True)):
            server.patch(*KEY, data({"midEmergency": value}), NAMESPACE)
            await until(lambda frozen=frozen: columns.frozen is frozen)
        before = len(applied)
        server.patch(*KEY, data("{"), NAMESPACE)
        server.patch(*KEY, data('{"midEmergency": "none of these"}'), NAMESPACE)
        await until(lambda: len(applied) == before + 2)
        assert columns.frozen is True
        server.remove(*KEY, NAMESPACE)
        await until(lambda: columns.frozen is False)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


@pytest.mark.parametrize(
    ("text", "frozen"),
    [(None, False), ("{}", False), ('{"MIDEMERGENCY": "freeze"}', True), ('{"midEmergency": "x"}', None), ("{", None)],
)
def test_reads_the_document_as_the_manager_does(text, frozen):
    assert emergency.is_frozen(text) is frozen
