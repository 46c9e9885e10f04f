"""Schedulers of one case: the real kube-scheduler with the plugin, and Python, as processes of this machine.

Each schedules the pods that name it, in parallel with the installed one, and is configured by the chart from values as
users write them. A case can run several configurations at once, and can kill, freeze and restart the processes.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.support import waiting
from e2e.support.installation import CHART, PATIENT_MILLISECONDS, RELEASE
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import content_cache, go_binaries, health
from tools.localcluster.access import Cluster
from tools.localcluster.host import ports, processes
from tools.localcluster.host.processes import Program

FOLDER: Final = content_cache.ROOT / "case-schedulers"

_TEMPLATE: Final = "templates/scheduler/config.yaml"
_KUBE_SCHEDULER, _PLUGIN = "kube-scheduler", "scheduler-plugin"
_START_SECONDS: Final = 90.0

Values = Mapping[str, Any]
"""`scheduler.plugin` of the chart's values: plugins, pluginArgs, deadlineMilliseconds."""


class HostScheduler:
    """One pair of processes."""

    def __init__(self, cluster: Cluster, name: str, values: Values, *, flags: Sequence[str] = ()) -> None:
        self.name = name
        """What pods write into spec.schedulerName."""
        self._cluster = cluster
        self._folder = FOLDER / name
        self._socket = self._folder / "plugin.sock"
        self._port, self._http_port, self._debug_port = ports.free_ports(3)
        self._values = {"deadlineMilliseconds": PATIENT_MILLISECONDS, **values}
        self._flags = flags

    @property
    def probe_address(self) -> str:
        """Return HOST:PORT of the plugin's probes and metrics."""
        return f"127.0.0.1:{self._http_port}"

    @property
    def debug_address(self) -> str:
        """Return HOST:PORT of the plugin's debug pages."""
        return f"127.0.0.1:{self._debug_port}"

    @property
    def policy_file(self) -> Path:
        """Return the plugin's configuration file; it exists after the start."""
        return self._folder / "scheduler-plugin.yaml"

    def start(self) -> None:
        """Start both and wait until they are ready. Raises ClusterProblem."""
        for leftover in (_KUBE_SCHEDULER, _PLUGIN):
            processes.stop(leftover, self._folder)
            self._log(leftover).unlink(missing_ok=True)
        self._write_configuration()
        self.start_plugin(wait=False)
        program = [
            str(go_binaries.scheduler_with_plugin()),
            f"--config={self._folder / 'kube-scheduler.yaml'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--authorization-always-allow-paths=/healthz,/readyz,/metrics",
        ]
        processes.start(Program(_KUBE_SCHEDULER, program, {}), self._folder)
        self.wait_plugin()
        self._wait(_KUBE_SCHEDULER, f"https://127.0.0.1:{self._port}/readyz")

    def stop(self) -> None:
        """End both."""
        for program in (_KUBE_SCHEDULER, _PLUGIN):
            processes.stop(program, self._folder)

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
        (plugin,) = document["profiles"][0]["pluginConfig"]
        plugin["args"]["socket"] = str(self._socket)
        (self._folder / "kube-scheduler.yaml").write_text(yaml.safe_dump(document))
        self.policy_file.write_text(rendered["scheduler-plugin.yaml"])

    # the life of the plugin's process

    def start_plugin(self, *, wait: bool = True) -> None:
        """Start it where the last one was, and wait until it has read the cluster."""
        program = [
            *(sys.executable, "-m", "scheduler_plugin", "run"),
            f"--config={self.policy_file}",
            f"--kubeconfig={self._cluster.kubeconfig}",
            f"--plugin-socket={self._socket}",
            *("--http-address=127.0.0.1", f"--http-port={self._http_port}"),
            f"--debug-port={self._debug_port}",
            *self._flags,
        ]
        environment = {"PYTHONPATH": str(content_cache.REPOSITORY), "OPENBLAS_NUM_THREADS": "1"}
        processes.start(Program(_PLUGIN, program, environment), self._folder)
        if wait:
            self.wait_plugin()

    def wait_plugin(self) -> None:
        """Wait until it knows the cluster."""
        self._wait(_PLUGIN, f"http://{self.probe_address}/readyz")

    def plugin_ends(self) -> None:
        """Send SIGTERM to the plugin's process, and wait for its end."""
        processes.stop(_PLUGIN, self._folder)

    def plugin_is_killed(self) -> None:
        """Send SIGKILL to the plugin's process, and wait for its end."""
        process = processes.find(_PLUGIN, self._folder)
        assert process is not None
        process.kill()
        waiting.until("it is gone", lambda: processes.find(_PLUGIN, self._folder) is None)

    # metrics, logs and pages of both processes

    def unasked(self) -> int:
        """Return the number of attempts that kube-scheduler has made without an answer."""
        return int(_sum(f"https://127.0.0.1:{self._port}/metrics", "koord_suite_unasked_pods_total"))

    def held(self, kind: str) -> int:
        """Return the number of objects of a kind in the plugin's cache: nodes, pods, unconfirmed_pods ..."""
        sample = "koord_scheduler_plugin_tracked_objects"
        return int(_sum(f"http://{self.probe_address}/metrics", sample, kind=kind))

    def plugin_page(self, path: str) -> str:
        """Return a page of the plugin: metrics, or a debug page. Raises OSError."""
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
