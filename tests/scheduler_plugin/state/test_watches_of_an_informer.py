"""The watches that readiness waits for, and the events that one watch applies."""

import asyncio

from apiserver_client import errors, watching
from scheduler_plugin.state import informer

KEYS = [watching.Key("default", f"p{index}") for index in range(40)]


def test_a_watch_is_named_with_its_error_until_its_first_list_is_complete():
    watches = informer.new_watches()
    assert watches.unsynced() == ["nodes", "pods", "node_metrics", "waiting_pods"]
    watches.nodes.synced = watches.waiting_pods.synced = True
    watches.pods.last_error = errors.Unreachable("GET /api/v1/pods: refused")
    assert watches.unsynced() == ["pods (GET /api/v1/pods: refused)", "node_metrics"]
    watches.pods.synced = watches.node_metrics.synced = True
    assert watches.unsynced() == []


class Applied:
    """The calls that a stream of events makes, each with the number of turns of the event loop before it."""

    def __init__(self, *events):
        self.events = events
        self.calls = []
        self.turns = 0
        self.broken = None
        self.slices = 3

    async def stream(self):
        for event in self.events:
            yield event

    def note(self, *call):
        self.calls.append((*call, self.turns))
        if call[1] == self.broken:
            raise ValueError("broken")

    def keep(self, keys):
        for index in range(self.slices):
            self.note("kept", (index, sorted(keys)))
            yield

    async def count(self):
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    async def run(self):
        counting = asyncio.create_task(self.count())
        async with asyncio.timeout(25):  # a second for each event or slice would be too long
            await informer._follow(
                self.stream(),
                changed=lambda item: self.note("changed", item),
                deleted=lambda key, item: self.note("deleted", key, item),
                keep=self.keep,
            )
        counting.cancel()
        return [call[:-1] for call in self.calls]

    def steps(self):
        return [call[-1] for call in self.calls]


async def test_each_event_has_a_turn_of_its_own():
    applied = Applied(*(watching.Changed(key, key.name) for key in KEYS))
    assert await applied.run() == [("changed", key.name) for key in KEYS]
    assert len(set(applied.steps())) == len(KEYS)


async def test_each_slice_after_a_list_has_a_turn_of_its_own():
    applied = Applied(watching.Synced(frozenset({"b", "a"}), "5"))
    applied.slices = 40
    assert await applied.run() == [("kept", (index, ["a", "b"])) for index in range(40)]
    assert len(set(applied.steps())) == 40


async def test_events_are_applied_by_their_kind_and_one_that_fails_or_is_unreadable_stops_none(caplog):
    key = KEYS[0]
    applied = Applied(
        watching.Changed(key, "broken"),
        watching.Unreadable(key, "nonsense"),
        watching.Deleted(key, "last"),
        watching.Deleted(key, None),
        watching.Changed(key, "next"),
    )
    applied.broken = "broken"
    assert await applied.run() == [
        ("changed", "broken"),
        ("deleted", key, "last"),
        ("deleted", key, None),
        ("changed", "next"),
    ]
    assert [each.levelname for each in caplog.records] == ["ERROR", "WARNING"]
    assert "nonsense" in caplog.text
