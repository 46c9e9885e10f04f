"""Any history of the ConfigMap and of restarts, against a plain model of the state in force, stored and written."""

import asyncio
import datetime as dt
import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from api_types.colocation import document as colocation_document
from apiserver_client import session
from manager.cache.store import ConfigMapStore
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.settings import ManagerSettings
from manager.slo_config import strategy
from manager.slo_config.controller import ConfigController, ConfigReporter, ConfigStep
from manager.slo_config.evaluation import State
from tests.fakes import cluster

NAME, NAMESPACE = "slo-controller-config", "koordinator-system"
POOL = {"matchLabels": {"pool": "x"}}
GOOD = [
    '{"enable": true}',
    '{"enable": true, "degradeTimeMinutes": 5}',
    json.dumps({"enable": True, "nodeConfigs": [{"name": "x", "nodeSelector": POOL, "midCPUThresholdPercent": 300}]}),
]
BAD = [
    "",
    " \n",
    "null",
    "# none",
    "{",
    '{"degradeTimeMinutes": 0}',
    '{"foo": 1}',
    '{"nodeConfigs": [{"enable": "no"}]}',
]
STEPS = st.lists(
    st.tuples(st.just("edit"), st.sampled_from(GOOD + BAD))
    | st.tuples(st.sampled_from(["delete", "annotate", "refresh", "restart"]), st.just("")),
    max_size=12,
)


class History:
    """A manager that is started and stopped over a cluster in memory, and its model."""

    def __init__(self, server, api):
        self.server = server
        self.api = api
        self.there = None
        """Text of the document; None without a ConfigMap."""
        self.in_force = None
        """Text of the document in force; None for nothing."""
        self.kept = None

    def start(self):
        """Set the state of a starting manager: the stored document."""
        telemetry = Telemetry(CollectorRegistry(), reasons=[], states=[*State])
        now = lambda: self.server.now  # noqa: E731
        reporter = ConfigReporter(self.api, ManagerSettings(), EventRecorder(self.api, telemetry, now), telemetry, now)
        self.known = ConfigMapStore()
        self.steps = []
        self.config = ConfigController(
            self.api, ManagerSettings(), config_maps=self.known, reporter=reporter, telemetry=telemetry,
            on_change=lambda: None, schedule=lambda step, seconds: self.steps.append((step, seconds)), clock=now,
        )  # fmt: skip
        self.in_force = self.kept
        return self.look(ConfigStep.RESTORE)

    async def look(self, *first):
        """Update the store, decide, and carry out what is due."""
        for _ in range(2):
            try:
                self.known.update(self.known.decode(self.live()))
            except KeyError:
                self.known.remove(NAME)
                self.known.is_read = True
            for step in (*first, ConfigStep.DECIDE):
                await self.config.work(step)
            while due := [step for step, seconds in self.steps if seconds == 0]:
                self.steps = []
                for step in dict.fromkeys(due):
                    await self.config.work(step)
            self.server.now += dt.timedelta(seconds=60)
            first = ()

    async def do(self, step, text):
        if step == "edit":
            data = {"data": {"colocation-config": text}}
            if self.there is None:
                self.server.add("configmaps", {"metadata": {"name": NAME}, **data}, NAMESPACE)
            else:
                self.server.patch("configmaps", NAME, data, NAMESPACE)
            self.there = text
        elif step == "delete" and self.there is not None:
            self.server.remove("configmaps", NAME, NAMESPACE)
            self.there = None
        elif step == "annotate" and self.there is not None:
            self.server.patch("configmaps", NAME, {"metadata": {"annotations": {"mine": "x"}}}, NAMESPACE)
        if step == "restart":
            await self.start()
        else:
            await self.look()
        if self.there in GOOD:
            self.in_force = self.kept = self.there

    def live(self):
        return self.server.get("configmaps", NAME, NAMESPACE)

    def writes(self):
        return sum(path.endswith(f"/{NAME}") for _, path, _ in self.server.writes)

    def check(self):
        strategies = self.config.strategies
        if self.in_force is None:
            assert strategies is None
        else:
            wanted = strategy.configuration(colocation_document.read_config(self.in_force).config)
            assert strategies.configuration == wanted
        if self.there is not None:
            found = self.live()
            assert found["data"] == {"colocation-config": self.there}
            status = yaml.safe_load(found["metadata"]["annotations"]["koordinator.sh/colocation-config-status"])
            assert status["status"] == str(self.there not in BAD)


async def lived_through(steps):
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        history = History(server, api)
        await history.start()
        for step, text in steps:
            before, judged_before = history.writes(), history.there
            await history.do(step, text)
            history.check()
            written = history.writes() - before
            assert written <= 1
            if step in ("annotate", "refresh", "delete", "restart"):
                assert written == 0
            if step == "edit" and text == judged_before:
                assert written == 0


@settings(max_examples=40)
@given(STEPS)
def test_every_history_ends_as_in_the_model(steps):
    asyncio.run(lived_through(steps))
