"""The faults of a soak, each begun and ended on its stage; two of them at the same time by `Faults.both`.

What cannot be done here: a full disk, a clock that is set, a node that reboots, an etcd that is restored. They have
cases and tests of their own (docs/reliability.md).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, Final

import psutil
import urllib3
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from e2e.soak.pairs import Kind, Layer
from e2e.soak.stage import Stage, start_scheduler
from e2e.support import host_components, slo_config, waiting
from e2e.support.apiserver_tcp_proxy import FlakyApiserverProxy
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE
from tools.localcluster import control_plane, progress

CHECKPOINT = "prediction.checkpoint"
BROKEN = '{"enable": true, "degradeTimeMinutes": "soon"}'
LINK_STATUS = 500
HOLD_SECONDS = (10.0, 60.0)
_POLL_SECONDS = 2.0
_ANSWERS_SECONDS = 120.0
_NOT_FOUND = 404

KINDS: Final = (
    Kind("configuration broken", Layer.OBJECTS),
    Kind("CRD gone", Layer.OBJECTS),
    Kind("reports deleted", Layer.OBJECTS),
    Kind("RBAC lost", Layer.OBJECTS),
    Kind("token revoked", Layer.OBJECTS),
    Kind("kill", Layer.PARTS),
    Kind("freeze", Layer.PARTS),
    Kind("checkpoint corrupt", Layer.PARTS),
    Kind("kube-scheduler restart", Layer.PARTS),
    Kind("partition", Layer.LINK),
    Kind("silent peer", Layer.LINK),
    Kind("only errors", Layer.LINK),
    Kind("API server restart", Layer.CONTROL_PLANE),
    Kind("etcd restart", Layer.CONTROL_PLANE),
)
"""Every kind that the stage can do."""


def persistently(what: str, act: Callable[[], Any]) -> Any:
    """Return the first result of `act`, which fails while the API server comes back. Raises TimeLimitExceeded."""

    def attempt() -> tuple[Any]:
        try:
            return (act(),)
        except urllib3.exceptions.HTTPError as away:
            raise LookupError(str(away)) from away

    return waiting.until(what, attempt, within_seconds=_ANSWERS_SECONDS)[0]


class Faults:
    """Begins and ends faults, and starts what has ended, as the kubelet would."""

    def __init__(self, on: Stage, link: FlakyApiserverProxy, chance: random.Random) -> None:
        self._on = on
        self._link = link
        self._chance = chance
        self._hit: set[str] = set()
        """Parts that the pair under way has hit: its other fault takes another one."""
        self._pids: dict[str, int] = {}
        self.ended: Counter[str] = Counter()
        """Part -> its processes that were killed, or that ended in a fault as they may: managers without a Lease."""
        self._crds = client.ApiextensionsV1Api(on.cluster_client.api_client)
        self._begin: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
            "configuration broken": self._broken_configuration,
            "CRD gone": self._crd_gone,
            "reports deleted": self._reports_deleted,
            "RBAC lost": self._rbac_lost,
            "token revoked": self._token_revoked,
            "kill": self._killed,
            "freeze": self._frozen,
            "checkpoint corrupt": self._corrupt_checkpoint,
            "kube-scheduler restart": self._scheduler_away,
            "partition": lambda: self._link_fault(link.refuse),
            "silent peer": lambda: self._link_fault(link.silence),
            "only errors": lambda: self._link_fault(lambda: link.answer(LINK_STATUS)),
            "API server restart": self._apiserver_away,
            "etcd restart": self._etcd_away,
        }

    def both(self, pair: Sequence[Kind]) -> None:
        """Begin both faults, keep them for a while, end them. Raises TimeLimitExceeded or ClusterProblem."""
        self._hit.clear()
        self._pids.clear()
        self.keep_running()
        end = time.monotonic() + self._chance.uniform(*HOLD_SECONDS)
        with ExitStack() as stack:
            for kind in pair:  # the lower layer first, so it ends last: its end needs the API server
                progress.report(f"fault: {kind.name}")
                stack.enter_context(self._begin[kind.name]())
            while time.monotonic() < end:
                self.keep_running()
                time.sleep(_POLL_SECONDS)
        persistently("the API server answers", lambda: self._on.cluster_client.list("Node"))

    def keep_running(self) -> None:
        """Start every part that has ended. A manager may end by itself: without its Lease it must not write."""
        for name, part in self._on.parts.items():
            pid = part.ensure_running().process.pid
            if self._pids.setdefault(name, pid) != pid and name.startswith("manager"):
                self.ended[name] += 1
            self._pids[name] = pid

    def _pick(self) -> str:
        name = self._chance.choice(sorted(self._on.parts.keys() - self._hit))
        self._hit.add(name)
        return name

    def _kill(self, name: str) -> None:
        process = self._on.parts[name].ensure_running().process
        process.kill()
        process.wait(10)
        self.ended[name] += 1
        progress.report(f"killed {name}")
        self._pids[name] = self._on.parts[name].ensure_running().process.pid

    @contextmanager
    def _killed(self) -> Iterator[None]:
        self._kill(self._pick())
        yield

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        name = self._pick()
        process = self._on.parts[name].ensure_running().process
        process.suspend()
        progress.report(f"froze {name}")
        try:
            yield
        finally:
            with suppress(psutil.NoSuchProcess):
                process.resume()

    @contextmanager
    def _corrupt_checkpoint(self) -> Iterator[None]:
        self._hit.add("koordlet")
        (self._on.plane.places.state / CHECKPOINT).write_bytes(self._chance.randbytes(100_000))
        self._kill("koordlet")
        yield

    @contextmanager
    def _scheduler_away(self) -> Iterator[None]:
        with self._program_away("kube-scheduler"):
            yield
        start_scheduler(self._on.plane)

    @contextmanager
    def _apiserver_away(self) -> Iterator[None]:
        with self._program_away("kube-apiserver"):
            yield
        self._on.plane.start_apiserver()

    @contextmanager
    def _etcd_away(self) -> Iterator[None]:
        with self._program_away("etcd"):
            yield
        control_plane.start_one(
            control_plane.etcd(self._on.plane.places, self._on.plane.binaries), self._on.plane.places
        )

    @contextmanager
    def _program_away(self, name: str) -> Iterator[None]:
        process = self._on.plane.process(name).process
        process.kill()
        process.wait(10)
        yield

    @contextmanager
    def _link_fault(self, begin: Callable[[], None]) -> Iterator[None]:
        begin()
        try:
            yield
        finally:
            self._link.recover()

    @contextmanager
    def _token_revoked(self) -> Iterator[None]:
        self._on.account.renew()
        yield

    @contextmanager
    def _rbac_lost(self) -> Iterator[None]:
        self._on.account.unbind()
        yield
        persistently("the account has its role again", self._on.account.bind)

    @contextmanager
    def _reports_deleted(self) -> Iterator[None]:
        for seen in self._on.cluster_client.list("NodeMetric"):
            self._on.cluster_client.delete("NodeMetric", seen["metadata"]["name"])
        yield

    @contextmanager
    def _broken_configuration(self) -> Iterator[None]:
        """Put a broken document in the place of the one in force; then replace the ConfigMap by a good one."""
        good = slo_config.read(self._on.cluster_client)
        slo_config.write(self._on.cluster_client, BROKEN)
        yield
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP},
            "data": {slo_config.KEY: good},
        }

        def replace() -> None:
            self._on.cluster_client.delete("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)
            self._on.cluster_client.create("ConfigMap", body, SUITE_NAMESPACE)

        persistently("the ConfigMap is replaced", replace)

    @contextmanager
    def _crd_gone(self) -> Iterator[None]:
        crd = yaml.safe_load(host_components.CRD_FILE.read_text())
        name = crd["metadata"]["name"]
        self._crds.delete_custom_resource_definition(name)
        yield

        def create() -> None:
            """Create the CRD, unless a former attempt has; while it terminates, a conflict is an ApiException."""
            try:
                found = self._crds.read_custom_resource_definition(name)
            except ApiException as missing:
                if missing.status != _NOT_FOUND:
                    raise
                self._crds.create_custom_resource_definition(crd)
            else:
                if found.metadata and found.metadata.deletion_timestamp:
                    raise LookupError(f"CRD {name} is still being deleted")

        persistently(f"CRD {name} is created", create)
        persistently("NodeMetrics are served", lambda: self._on.cluster_client.list("NodeMetric"))
