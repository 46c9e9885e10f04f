"""Schedulers of one case: the real kube-scheduler and the suite's extender, as processes of this machine.

Each schedules the pods that name it, in parallel with the installed one, and is configured by the chart from values as
users write them. A case can run several configurations at once, and can kill, freeze and restart the processes.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.support import waiting
from e2e.support.installation import CHART, RELEASE
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import content_cache, go_binaries, health
from tools.localcluster.access import Cluster
from tools.localcluster.host import ports, processes
from tools.localcluster.host.processes import Program

FOLDER: Final = content_cache.ROOT / "case-schedulers"
PATIENT: Final = "5s"
"""httpTimeout where it is not the subject: long, so that a busy machine does not influence placement."""

_TEMPLATE: Final = "templates/scheduler/config.yaml"
_KUBE_SCHEDULER, _EXTENDER = "kube-scheduler", "extender"
_START_SECONDS: Final = 90.0
_WENT_ON: Final = re.compile(r'"Skipping extender as it returned error.*? err="(.*)"$', re.MULTILINE)
"""Errors of filter calls only: bind calls always fail, because the extender refuses to bind."""

Values = Mapping[str, Any]
"""`scheduler.plugin` of the chart's values: plugins, pluginArgs, httpTimeout."""


class HostScheduler:
    """One pair of processes. `address` is where kube-scheduler calls: the extender, or a proxy before it."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        values: Values,
        *,
        address: str | None = None,
        flags: Sequence[str] = (),
        tls: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        """What pods write into spec.schedulerName."""
        self._cluster = cluster
        self._folder = FOLDER / name
        self._port, self._extender_port, self._http_port, self._debug_port = ports.free_ports(4)
        self._tls = tls
        """`tlsConfig` of kube-scheduler, where `flags` make the extender serve over TLS."""
        self._address = address or self.extender_address
        self._values = {"httpTimeout": PATIENT, **values}
        self._flags = flags

    @property
    def extender_address(self) -> str:
        """Return the URL of the extender itself."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._extender_port}"

    @property
    def probe_address(self) -> str:
        """Return HOST:PORT of the extender's probes and metrics."""
        return f"127.0.0.1:{self._http_port}"

    @property
    def debug_address(self) -> str:
        """Return HOST:PORT of the extender's debug pages."""
        return f"127.0.0.1:{self._debug_port}"

    @property
    def policy_file(self) -> Path:
        """Return the extender's configuration file; it exists after the start."""
        return self._folder / "scheduler-plugin.yaml"

    def start(self) -> None:
        """Start both and wait until they are ready. Raises ClusterProblem."""
        for leftover in (_KUBE_SCHEDULER, _EXTENDER):
            processes.stop(leftover, self._folder)
            self._log(leftover).unlink(missing_ok=True)
        self._write_configuration()
        self.start_extender(wait=False)
        program = [
            str(go_binaries.everything() / "kube-scheduler"),
            f"--config={self._folder / 'kube-scheduler.yaml'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--authorization-always-allow-paths=/healthz,/readyz,/metrics",
        ]
        processes.start(Program(_KUBE_SCHEDULER, program, {}), self._folder)
        self.wait_extender()
        self._wait(_KUBE_SCHEDULER, f"https://127.0.0.1:{self._port}/readyz")

    def stop(self) -> None:
        """End both, frozen or not."""
        self.extender_thaws()
        for each in (_KUBE_SCHEDULER, _EXTENDER):
            processes.stop(each, self._folder)

    def _write_configuration(self) -> None:
        """Write the configuration that the chart renders, with other names and paths."""
        self._folder.mkdir(parents=True, exist_ok=True)
        values = json.dumps(
            {"global": {"imageRegistry": "registry.example"}, "scheduler": {"name": self.name, "plugin": self._values}}
        )
        words = ("helm", "template", RELEASE, str(CHART), "--namespace", SUITE_NAMESPACE, "--values=-")
        rendered = yaml.safe_load(self._cluster.run(*words, f"--show-only={_TEMPLATE}", stdin=values))["data"]
        document = yaml.safe_load(rendered["kube-scheduler.yaml"])
        document["clientConnection"]["kubeconfig"] = str(self._cluster.kubeconfig)
        document["leaderElection"] = {"leaderElect": False}
        (extender,) = document["extenders"]
        extender["urlPrefix"] = self._address
        if self._tls:
            extender |= {"enableHTTPS": True, "tlsConfig": dict(self._tls)}
        (self._folder / "kube-scheduler.yaml").write_text(yaml.safe_dump(document))
        self.policy_file.write_text(rendered["scheduler-plugin.yaml"])

    # the extender's life

    def start_extender(self, *, wait: bool = True) -> None:
        """Start it where the last one was, and wait until it has read the cluster."""
        program = [
            *(sys.executable, "-m", "scheduler_plugin", "run"),
            f"--config={self.policy_file}",
            f"--kubeconfig={self._cluster.kubeconfig}",
            f"--extender-port={self._extender_port}",
            *("--http-address=127.0.0.1", f"--http-port={self._http_port}"),
            f"--debug-port={self._debug_port}",
            *self._flags,
        ]
        environment = {"PYTHONPATH": str(content_cache.REPOSITORY), "OPENBLAS_NUM_THREADS": "1"}
        processes.start(Program(_EXTENDER, program, environment), self._folder)
        if wait:
            self.wait_extender()

    def wait_extender(self) -> None:
        """Wait until it knows the cluster."""
        self._wait(_EXTENDER, f"http://{self.probe_address}/readyz")

    def extender_ends(self) -> None:
        """Send SIGTERM to the extender, and wait for its end."""
        processes.stop(_EXTENDER, self._folder)

    def extender_is_killed(self) -> None:
        """Send SIGKILL to the extender, and wait for its end."""
        self._extender().kill()
        waiting.until("the extender is gone", lambda: processes.find(_EXTENDER, self._folder) is None)

    def extender_freezes(self) -> None:
        """Send SIGSTOP: the kernel still accepts connections, and no process answers."""
        self._extender().suspend()

    def extender_thaws(self) -> None:
        """Send SIGCONT to the extender, if it runs."""
        process = processes.find(_EXTENDER, self._folder)
        if process is not None:
            process.resume()

    def _extender(self) -> psutil.Process:
        processes.require_alive(_EXTENDER, self._folder)
        found = processes.find(_EXTENDER, self._folder)
        assert found is not None
        return found

    # metrics, logs and pages of both processes

    def ignored_errors(self) -> list[str]:
        """Return the errors of failed filter calls that kube-scheduler has ignored."""
        return _WENT_ON.findall(self._log(_KUBE_SCHEDULER).read_text(errors="replace"))

    def attempts(self, result: str) -> int:
        """Return the number of scheduling attempts with a result: scheduled, unschedulable or error."""
        return int(_sum(f"https://127.0.0.1:{self._port}/metrics", "scheduler_schedule_attempts_total", result=result))

    def calls_counted(self, verb: str, outcome: str = "ok") -> int:
        """Return the number of calls that the extender has counted."""
        return self._of_extender("requests_total", verb=verb, outcome=outcome)

    def held(self, kind: str) -> int:
        """Return the number of objects of a kind in the extender's cache: nodes, pods, unconfirmed_pods ..."""
        return self._of_extender("tracked_objects", kind=kind)

    def _of_extender(self, name: str, **labels: str) -> int:
        return int(_sum(f"http://{self.probe_address}/metrics", f"koord_scheduler_plugin_{name}", **labels))

    def extender_page(self, path: str) -> str:
        """Return a page of the extender: metrics, or a debug page. Raises OSError."""
        address = self.debug_address if path.startswith("/debug/") else self.probe_address
        return _page(f"http://{address}{path}")

    def _log(self, program: str) -> Path:
        return self._folder / f"{program}.log"

    def _wait(self, program: str, url: str) -> None:
        health.wait(f"{self.name}: {url}", lambda: health.responds(url), _START_SECONDS, program, self._folder)


@contextlib.contextmanager
def running(cluster: Cluster, configurations: Mapping[str, Values]) -> Iterator[dict[str, HostScheduler]]:
    """Start one scheduler for each configuration, all at the same time; their pods name it `case-<key>`."""
    made = {key: HostScheduler(cluster, f"case-{key}", values) for key, values in configurations.items()}
    with started(*made.values()):
        yield made


@contextlib.contextmanager
def started(*schedulers: HostScheduler) -> Iterator[None]:
    """Start schedulers, all at the same time, and end them."""
    with contextlib.ExitStack() as ends, ThreadPoolExecutor(len(schedulers)) as pool:
        for scheduler in schedulers:
            ends.callback(scheduler.stop)
        list(pool.map(HostScheduler.start, schedulers))
        yield


def _sum(url: str, sample: str, **labels: str) -> float:
    families = text_string_to_metric_families(_page(url))
    of_all = [each for family in families for each in family.samples if each.name == sample]
    return sum(each.value for each in of_all if labels.items() <= each.labels.items())


def _page(url: str) -> str:
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # kube-scheduler makes its certificate up
    with urllib.request.urlopen(url, context=trust if url.startswith("https") else None, timeout=10) as answer:
        return answer.read().decode()
