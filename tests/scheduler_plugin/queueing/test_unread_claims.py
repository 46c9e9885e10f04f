"""Claims of reserved pods that do not exist, or that the apiserver does not return."""

import types

import pytest

from scheduler_plugin.queueing import tasks
from tests.fakes import apiserver
from tests.scheduler_plugin.queueing.test_reservations import Scene
from tests.scheduler_plugin.queueing.test_tasks import claim

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture
def scene(monkeypatch):
    """Return nodes of which a has the most room."""
    made = Scene(a=10, b=30)
    monkeypatch.setattr(tasks, "time", types.SimpleNamespace(monotonic=lambda: made.monotonic))
    return made


async def read_claims(scene, answers, *, after_seconds):
    """Let time pass, then read the claims that are due once; return the requests."""
    async with apiserver.running() as server:
        for name, answer in answers.items():
            server.on("GET", f"{CLAIMS}/{name}", answer)
        async with server.session() as api:
            queueing = tasks.QueueingTasks(api, None, scene.parts.reservations, lambda: scene.now)
            (reservation,) = scene.wait(after_seconds)
            await queueing._check(reservation)
        return server.asked("GET")


async def test_a_claim_that_does_not_exist_hides_none_of_the_others(scene):
    scene.schedule(claims=["missing", "new"])
    missing = apiserver.status(404, "NotFound", name="missing")
    asked = await read_claims(scene, {"missing": missing, "new": claim("b")}, after_seconds=1)
    assert len(asked) == 2
    assert scene.counted() == {"web": "b"}


async def test_while_claims_cannot_be_read_the_pod_counts_on_and_the_log_has_the_reason(scene, caplog):
    scene.schedule(claims=["c"])
    forbidden = apiserver.status(403, "Forbidden", "cannot get resource persistentvolumeclaims")
    await read_claims(scene, {"c": forbidden}, after_seconds=4)
    scene.wait(2)
    assert scene.counted() == {"web": "a"}, "a reservation without a claim ends after 5 s"
    (line,) = [each for each in caplog.records if each.name == tasks.log.name]
    assert line.levelname == "WARNING"
    assert line.getMessage().startswith("pod default/web: cannot read its claims: ")
    assert "cannot get resource persistentvolumeclaims" in line.getMessage()
