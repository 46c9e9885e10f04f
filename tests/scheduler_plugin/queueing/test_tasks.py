"""Refused pods are woken through the apiserver, no sooner than it asks, and claims of reserved pods are read there."""

import asyncio
import types

import pytest

from scheduler_plugin.queueing import tasks
from scheduler_plugin.queueing.refused_pods import Retry, WakeCause
from scheduler_plugin.state import pod_info
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.queueing.test_reservations import Scene

POD = "/api/v1/namespaces/default/pods/web"
TOO_MANY = apiserver.Answer({"kind": "Status", "code": 429}, 429, (("Retry-After", "3"),))


def asyncio_with(sleep):
    """Return asyncio with another `sleep`; patches begin at once."""

    async def chosen(seconds):
        await (asyncio.sleep(0) if seconds == tasks._SPACING_SECONDS else sleep(seconds))

    return types.SimpleNamespace(**{**vars(asyncio), "sleep": chosen})


class Refused:
    """One pod that every round wakes."""

    failed = 0

    def begins_round(self, monotonic):
        return True

    def choose(self, now, monotonic):
        yield Retry(pod_info.read(factories.pod("web"), factories.parts().estimator_args), WakeCause.COOLED)

    def not_woken(self, uid, *, ever):
        assert not ever


async def times_of_two_patches(monkeypatch, refused, *answers):
    """Wake a pod until it was patched twice; return the times of the patches. Only sleeps move the clock."""
    clock, patched_at = 100.0, []

    async def sleep(seconds):
        nonlocal clock
        clock += seconds
        patched_at.extend([clock] * (len(server.asked("PATCH")) - len(patched_at)))
        if len(patched_at) > 1:
            raise asyncio.CancelledError
        await asyncio.gather(*waking._patching)

    monkeypatch.setattr(tasks, "asyncio", asyncio_with(sleep))
    monkeypatch.setattr(tasks, "time", types.SimpleNamespace(monotonic=lambda: clock))
    async with apiserver.running() as server:
        server.on("PATCH", POD, *answers)
        async with server.session() as api:
            waking = tasks.QueueingTasks(api, refused, None, lambda: NOW)
            with pytest.raises(asyncio.CancelledError):
                await waking.wake()
    return patched_at


async def test_wakes_nobody_before_the_time_that_the_apiserver_asks_for(monkeypatch):
    first, second = await times_of_two_patches(monkeypatch, Refused(), TOO_MANY, apiserver.Answer({}))
    assert second - first >= 3


async def test_patches_of_one_round_share_a_few_connections():
    async with apiserver.running() as server:
        server.on("PATCH", POD, apiserver.Answer({}))
        async with server.session() as api:
            waking = tasks.QueueingTasks(api, Refused(), None, lambda: NOW)
            for _ in range(20):
                waking._begin_to_annotate(next(Refused().choose(NOW, 0.0)))
            await asyncio.gather(*waking._patching)
        assert len(server.asked("PATCH")) == 20
        assert server.connections <= 4


def claim(node, volume=""):
    metadata = {"name": "c", "annotations": {"volume.kubernetes.io/selected-node": node}}
    return apiserver.Answer({"metadata": metadata, "spec": {"volumeName": volume}})


async def counted_after(monkeypatch, claims):
    """Return where the pod counts after its claims were read once; it is expected on node a."""
    scene = Scene(a=10, b=30)
    scene.schedule(claims=list(claims))
    scene.monotonic += 1
    turns = iter([None])

    async def sleep(_seconds):
        next(turns)

    monkeypatch.setattr(tasks, "asyncio", asyncio_with(sleep))
    monkeypatch.setattr(tasks, "time", types.SimpleNamespace(monotonic=lambda: scene.monotonic))
    async with apiserver.running() as server:
        for name, answer in claims.items():
            server.on("GET", f"/api/v1/namespaces/default/persistentvolumeclaims/{name}", answer)
        async with server.session() as api:
            queueing = tasks.QueueingTasks(api, None, scene.parts.reservations, lambda: scene.now)
            with pytest.raises(RuntimeError):
                await queueing.follow_claims()
            await asyncio.gather(*queueing._reading.values())
            await asyncio.sleep(0)
            assert not queueing._reading, "the next claims of the pod are read in their turn"
        assert len(server.asked("GET")) <= 16
    return scene.counted()


async def test_a_claim_that_is_bound_since_another_node_does_not_move_the_pod(monkeypatch):
    assert await counted_after(monkeypatch, {"old": claim("b", "pv-1"), "new": claim("a")}) == {"web": "a"}
    assert await counted_after(monkeypatch, {"new": claim("b"), "old": claim("a", "pv-1")}) == {"web": "b"}
    assert await counted_after(monkeypatch, {"old": claim("b", "pv-1")}) == {"web": "a"}


INVALID = apiserver.Answer({"kind": "Status", "code": 422, "message": "metadata.annotations: Too long"}, 422)


async def woken(monkeypatch, answers, *, rounds, cores=25):
    """Let pods of a tenant and one of another wait for 25 cores; return the patched pods in order."""
    clock = factories.Clock()
    parts = factories.parts(monotonic=clock)
    parts.cluster.node_changed(factories.node("n1"))

    def use(cores):
        parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": str(cores), "memory": "1Gi"}))

    use(90)
    for namespace, name in [*(("evil", name) for name in answers), ("shop", "victim")]:
        pod = factories.pod_document(name, namespace=namespace, requests={"cpu": str(cores), "memory": "1Mi"})
        parts.extender.filter(factories.request(pod, ["n1"]), NOW)
    use(40)
    left = iter(range(rounds))

    async def sleep(seconds):
        clock.seconds += seconds
        if seconds and next(left, None) is None:
            raise asyncio.CancelledError
        await asyncio.sleep(0.01 if seconds else 0)

    monkeypatch.setattr(tasks, "asyncio", asyncio_with(sleep))
    monkeypatch.setattr(tasks, "time", types.SimpleNamespace(monotonic=clock))
    async with apiserver.running() as server:
        for name, answer in answers.items():
            server.on("PATCH", f"/api/v1/namespaces/evil/pods/{name}", answer)
        server.on("PATCH", "/api/v1/namespaces/shop/pods/victim", apiserver.Answer({}))
        async with server.session() as api:
            queueing = tasks.QueueingTasks(api, parts.refused, parts.reservations, lambda: NOW)
            with pytest.raises(asyncio.CancelledError):
                await queueing.wake()
            for each in queueing._patching:
                each.cancel()
        return [each.path.rpartition("/")[2] for each in server.asked("PATCH")]


async def test_pods_that_cannot_be_woken_hold_no_room_back(monkeypatch):
    """Their author filled their annotations up to the limit of the API server."""
    pods = [f"full-{index}" for index in range(5)]
    assert await woken(monkeypatch, dict.fromkeys(pods, INVALID), rounds=12) == [pods[0], "victim"]


@pytest.mark.parametrize(("code", "left"), [(404, 0), (409, 0), (422, 1), (500, 1)])
async def test_a_pod_that_is_gone_waits_no_longer_and_one_that_exists_does(code, left):
    """The watch showed the deletion before the last attempt."""
    parts = factories.parts({"softAfterSeconds": 60})
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "90", "memory": "1Gi"}))
    parts.waiting.changed(factories.waiting_pod("web"))
    parts.waiting.gone("default", "web")
    document = factories.pod_document("web", requests={"cpu": "1", "memory": "1Mi"})
    parts.extender.filter(factories.request(document, ["n1"]), NOW)
    assert len(parts.waits) == 1
    pod = pod_info.read(factories.pod("web"), parts.estimator_args)
    status = {"kind": "Status", "code": code, "details": {"name": "web"}}
    async with apiserver.running() as server:
        server.on("PATCH", POD, apiserver.Answer(status, code))
        async with server.session() as api:
            await tasks.QueueingTasks(api, parts.refused, parts.reservations, lambda: NOW)._annotate(
                Retry(pod, WakeCause.COOLED)
            )
    assert len(parts.waits) == left


async def test_a_request_that_hangs_holds_no_other_one_back(monkeypatch):
    hangs = apiserver.Stream(apiserver.After(asyncio.Event()))
    assert await woken(monkeypatch, {"hangs": hangs}, rounds=3, cores=10) == ["hangs", "victim"]


class HangingApi:
    """An API server that answers nothing but patches, or nothing at all."""

    def __init__(self, *, answers_patches=False):
        self.patches = 0
        self._answers_patches = answers_patches

    async def send(self, call, **_rest):
        if call.method != "PATCH" or not self._answers_patches:
            await asyncio.Event().wait()
        self.patches += 1
        return b"{}"


async def hanging(monkeypatch, work, clock, *, seconds, every_turn=lambda: None):
    """Run a task for some seconds of a clock; return how many requests it has begun that have no answer."""
    end = clock.seconds + seconds
    before = asyncio.all_tasks()

    async def sleep(pause):
        clock.seconds += pause
        if clock.seconds > end:
            raise asyncio.CancelledError
        every_turn()
        await asyncio.sleep(0)

    monkeypatch.setattr(tasks, "asyncio", asyncio_with(sleep))
    monkeypatch.setattr(tasks, "time", types.SimpleNamespace(monotonic=clock))
    with pytest.raises(asyncio.CancelledError):
        await work()
    begun = asyncio.all_tasks() - before
    for each in begun:
        each.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
    return len(begun)


async def test_while_patches_hang_they_do_not_pile_up(monkeypatch):
    queueing = tasks.QueueingTasks(HangingApi(), Refused(), None, lambda: NOW)
    assert await hanging(monkeypatch, queueing.wake, factories.Clock(), seconds=120) <= 64


async def test_while_claims_cannot_be_read_they_are_asked_for_once_and_the_pods_count_on(monkeypatch):
    clock = factories.Clock()
    scene = Scene(a=10, b=30)
    scene.parts.cluster.monotonic = clock
    scene.schedule("first", claims=["c"])
    reservations = scene.parts.reservations
    for each in reservations._by_uid.values():
        each.began_at, each.check_at = 0.0, 1.0
    queueing = tasks.QueueingTasks(HangingApi(), None, reservations, lambda: NOW)
    expire = scene.parts.cluster.expire_assumed
    assert await hanging(monkeypatch, queueing.follow_claims, clock, seconds=120, every_turn=expire) == 1
    assert scene.counted() == {"first": "a"}


async def test_pods_that_wait_for_volumes_hold_no_wake_up_back(monkeypatch):
    """A tenant may have thousands of them."""
    clock, api = factories.Clock(), HangingApi(answers_patches=True)
    scene = Scene(a=10, b=30)
    for index in range(40):
        scene.schedule(f"p{index}", cores=0.1, claims=["c"])
    clock.seconds = scene.monotonic
    queueing = tasks.QueueingTasks(api, Refused(), scene.parts.reservations, lambda: NOW)

    woken = []

    def wake_one():
        if clock.seconds > scene.monotonic + 2 and not woken:
            woken.append(asyncio.create_task(queueing._annotate(next(Refused().choose(NOW, 0.0)))))

    await hanging(monkeypatch, queueing.follow_claims, clock, seconds=4, every_turn=wake_one)
    assert (len(woken), api.patches) == (1, 1)
