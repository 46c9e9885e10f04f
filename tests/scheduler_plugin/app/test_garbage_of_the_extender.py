"""Collections of garbage leave out what the first lists brought, so that they do not delay kube-scheduler."""

import asyncio
import contextlib
import gc

import pytest

from scheduler_plugin.app.extender_app import ExtenderApp
from scheduler_plugin.config import loader
from scheduler_plugin.settings import SchedulerPluginSettings


@pytest.fixture
def nothing_frozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("missing", [(), ("nodes",)])
async def test_objects_are_frozen_once_every_list_is_complete(missing, nothing_frozen, monkeypatch):
    app = ExtenderApp(SchedulerPluginSettings(extender_port=0, http_port=0, debug_port=0), loader.parse({}))
    monkeypatch.setattr(app, "_unsynced", lambda: list(missing))
    housekeeping = asyncio.create_task(app._housekeeping())
    await asyncio.sleep(0)  # its first round ends where it waits for the second
    housekeeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await housekeeping
    assert (gc.get_freeze_count() > 0) is not bool(missing)
