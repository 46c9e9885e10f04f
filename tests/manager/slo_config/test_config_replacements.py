"""The ConfigMap is replaced (deleted and created) at random moments: nothing may ever be switched off by that.

The controllers are the real ones; the answers of the apiserver, the watch and the hourly read travel for some
turns of the loop, in the order in which kopf delivers them: by UID, not by name. Each history is a seed, and equal
seeds give equal histories.
"""

import asyncio
import contextlib
import datetime as dt
import json
import random

import pytest
import yaml
from prometheus_client import CollectorRegistry

from apiserver_client import errors
from manager import leader
from manager.cache.store import ClusterStore
from manager.cache.work_queue import WorkQueue
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigController, ConfigReporter, ConfigStep
from manager.slo_config.evaluation import State
from tests.fakes import apiserver, cluster

pytestmark = pytest.mark.slow

NAME, NAMESPACE, LAST_GOOD = "slo-controller-config", "koordinator-system", "koord-manager-last-good-config"
SETTINGS = ManagerSettings()
GOOD = [
    {"enable": True},
    {"enable": True, "midCPUThresholdPercent": 80},
    {"enable": True, "midCPUThresholdPercent": 90, "nodeConfigs": [{"nodeSelector": {}} for _ in range(5)]},
]
BAD = [{"enable": "no"}, {"enable": True, **{f"unknown{number}": 1 for number in range(20)}}]
REPLACEMENTS = 20  # a history; 50 histories are 1,000


class Travelling:
    """The apiserver in memory, as a session: requests and answers travel for a random time, and may get lost."""

    def __init__(self, server, dice):
        self.server = server
        self.dice = dice
        self.loses = True

    async def travel(self, slowness=8):
        for _ in range(self.dice.choice((0, 1, 2, slowness, 5 * slowness))):
            await asyncio.sleep(0)

    async def send(self, call, *, parameters=None, body=None, **_):
        await self.travel(40 if "events" in call.path else 8)
        if self.loses and self.dice.random() < 0.03:
            raise errors.Unreachable(f"{call}: lost before it arrived")
        request = apiserver.Received(call.method, call.path, dict(parameters or {}), {}, body or b"")
        answer = self.server._answer(request)
        await self.travel()
        if self.loses and self.dice.random() < 0.03:
            raise errors.Unreachable(f"{call}: the answer was lost")
        text = json.dumps(answer.document).encode()
        if answer.status >= 400:
            raise errors.refusal(call, answer.status, text)
        return text


class History:
    """A leader's part for the configuration, over a cluster whose ConfigMap is edited and replaced."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.server = cluster.Cluster()
        self.api = Travelling(self.server, self.dice)
        self.now = self.server.now
        self.document = GOOD[0]
        self.last_valid = GOOD[0]
        self.tasks = set()
        self.delayed = []
        self.delivered = len(self.server.changes)
        self.workers = {}
        self._build()

    def _build(self):
        telemetry = Telemetry(CollectorRegistry(), reasons=[], states=[*State])
        clock = lambda: self.now  # noqa: E731
        self.cache = ClusterStore()
        recorder = EventRecorder(self.api, telemetry, clock)
        self.config = ConfigController(
            self.api, SETTINGS, config_maps=self.cache.config_maps,
            reporter=ConfigReporter(self.api, SETTINGS, recorder, telemetry, clock),
            telemetry=telemetry, on_change=self.check, schedule=self.schedule, clock=clock,
        )  # fmt: skip
        self.queue = WorkQueue(self.config.work, workers=len(ConfigStep))

    def schedule(self, step, seconds):
        if seconds > 0:
            self.delayed.append((self.now + dt.timedelta(seconds=seconds), step))
        else:
            self.queue.add(step)

    def advance(self, seconds):
        self.now += dt.timedelta(seconds=seconds)
        due = [each for each in self.delayed if each[0] <= self.now]
        self.delayed = [each for each in self.delayed if each not in due]
        for _, step in due:
            self.queue.add(step)

    def check(self):
        """Nothing was ever switched off, neither now nor for a successor."""
        if self.config.strategies is not None:
            assert self.config.strategies.configuration.cluster.enable is True
        stored = self.server._objects.get(("configmaps", NAMESPACE, LAST_GOOD))
        assert stored is None or json.loads(stored["data"]["colocation-config"])["enable"] is True

    def start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def write(self, document):
        self.document = document
        if document in GOOD:
            self.last_valid = document
        data = {"data": {"colocation-config": json.dumps(document)}}
        try:
            self.server.patch("configmaps", NAME, data, NAMESPACE)
        except cluster.Refusal:
            self.server.add("configmaps", {"metadata": {"name": NAME}, **data}, NAMESPACE)
        self.deliver()

    def deliver(self):
        """Hand new changes to the worker of their UID, as kopf does."""
        for kind, plural, item in self.server.changes[self.delivered :]:
            if plural == "configmaps" and item["metadata"]["name"] == NAME:
                before = self.workers.get(item["metadata"]["uid"])
                self.workers[item["metadata"]["uid"]] = self.start(self._hand_over(before, kind, item))
        self.delivered = len(self.server.changes)

    async def _hand_over(self, before, kind, item):
        if before is not None:
            await asyncio.wait([before])
        await self.api.travel()
        if kind == "DELETED":
            self.cache.config_maps.remove(NAME, item["metadata"]["uid"])
        else:
            self.cache.config_maps.update(self.cache.config_maps.decode(item))
        self.queue.add(ConfigStep.DECIDE)

    async def replace(self):
        """Delete and create, as `kubectl replace --force`."""
        slow = self.dice.random() < 0.5
        if slow:  # then the creation before this deletion has arrived
            await asyncio.wait([*self.workers.values()])
        self.server.remove("configmaps", NAME, NAMESPACE)
        self.deliver()
        for _ in range(self.dice.randrange(3) if slow else 0):
            self.advance(self.dice.uniform(0, 90))
            await self.api.travel()
        self.write(self.dice.choice(GOOD))

    async def act(self):
        match self.dice.randrange(6):
            case 0 | 1:
                self.write(self.dice.choice(GOOD + BAD))
            case 2:
                self.start(self._read())
            case 3:
                self.server.patch("configmaps", NAME, {"metadata": {"annotations": {"mine": "x"}}}, NAMESPACE)
            case 4:
                self.advance(self.dice.uniform(0, 5))
            case 5:
                await self.api.travel(100)
        self.deliver()
        await self.api.travel()
        self.check()

    async def _read(self):
        with contextlib.suppress(errors.Unreachable):
            await leader.read(self.api, SETTINGS, self.cache.config_maps)
        self.queue.add(ConfigStep.DECIDE)

    async def come_to_rest(self):
        """Let everything arrive, and what failed be retried."""
        self.api.loses = False
        for _ in range(4):
            for _ in range(2_000):
                self.deliver()
                await asyncio.sleep(0)
            self.advance(200)  # more than the longest delay before a step is retried
        self.api.loses = True

    def check_at_rest(self):
        self.check()
        text = self.server.get("configmaps", NAME, NAMESPACE)["metadata"]["annotations"][
            "koordinator.sh/colocation-config-status"
        ]
        told = yaml.safe_load(text)
        valid = self.document in GOOD
        assert (told["status"], told["reason"] == "ColocationConfigRejected") == (str(valid), not valid)
        assert ("the configuration is in force" in told["message"]) is valid
        in_force = self.config.strategies.configuration.cluster.mid_cpu_threshold_percent
        assert in_force == self.last_in_force().get("midCPUThresholdPercent", 100)
        stored = self.server.get("configmaps", LAST_GOOD, NAMESPACE)["data"]["colocation-config"]
        assert json.loads(stored) == self.last_in_force()

    def last_in_force(self):
        """Return the present document, or where it is refused, the last valid one that the manager saw."""
        return self.document if self.document in GOOD else json.loads(self.config._last_good)

    async def live(self):
        self.write(GOOD[0])
        working = asyncio.ensure_future(self.queue.run())
        await self.come_to_rest()
        for _ in range(REPLACEMENTS):
            for _ in range(self.dice.randrange(4)):
                await self.act()
            await self.replace()
            self.check()
        await self.come_to_rest()
        self.check_at_rest()
        working.cancel()
        await asyncio.gather(working, *self.tasks, return_exceptions=True)


@pytest.mark.parametrize("seeds", [range(first, first + 10) for first in range(0, 50, 10)], ids=str)
def test_a_thousand_replacements_switch_nothing_off_and_the_annotation_says_what_is_in_force(seeds):
    for seed in seeds:
        asyncio.run(History(seed).live())
