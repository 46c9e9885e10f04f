"""Prometheus and node_exporter as child processes on loopback."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.thirdparty.prometheus import packages
from tools.localcluster import progress
from tools.localcluster.host import ports

READY_SECONDS, END_SECONDS = 60.0, 30.0
SCRAPE_SECONDS = 1
DATA = "tsdb"


class Child:
    """A program with a page that responds when it is ready."""

    def __init__(self, folder: Path, program: str, ready_path: str) -> None:
        self._program = program
        self._ready_path = ready_path
        self._log = folder / f"{program}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = ports.free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def _start(self, *flags: str) -> None:
        with self._log.open("ab") as log:
            argv = [str(packages.program(self._program)), *flags]
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=self._log.parent)
        progress.wait_until(f"{self._program} ready", self._is_ready, READY_SECONDS, otherwise=self._explain)

    def page(self, path: str) -> bytes:
        """Get a page. Raises OSError."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=5) as answer:
            body: bytes = answer.read()
            return body

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if it does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            self._explain()
        try:
            return bool(self.page(self._ready_path))
        except OSError:
            return False

    def _explain(self) -> None:
        end = self._log.read_text(errors="replace")[-2000:]
        raise AssertionError(f"{self._program} at {self.url} does not become ready; the end of its log:\n{end}")


class NodeExporter(Child):
    """Debian's node_exporter, with the chosen collectors."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, packages.NODE_EXPORTER, "/metrics")

    def start(self) -> None:
        """Start it and wait until it answers."""
        collectors = "--collector.disable-defaults", "--collector.cpu", "--collector.meminfo"
        self._start(f"--web.listen-address=127.0.0.1:{self.port}", *collectors)


class Prometheus(Child):
    """Debian's Prometheus, with its data in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, packages.PROMETHEUS, "/-/ready")
        self._folder = folder

    def start(
        self,
        targets: Mapping[str, int],
        instance: str,
        rules: Sequence[Path] = (),
        node: str | None = None,
        over_tls: Collection[str] = (),
    ) -> None:
        """Scrape these ports every second, by job; every series gets `instance`, as relabelling would give it.

        The jobs `over_tls` have a certificate of their own making.
        With `node` a series gets that label too, and keeps a label that it has, as by the PodMonitors of the chart.
        """
        labels = {"instance": instance, **({"node": node} if node else {})}
        jobs = [
            {
                "job_name": job,
                "honor_labels": node is not None,
                "scheme": "https" if job in over_tls else "http",
                "tls_config": {"insecure_skip_verify": True},
                "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": labels}],
            }
            for job, port in targets.items()
        ]
        interval = f"{SCRAPE_SECONDS}s"
        timing = {"scrape_interval": interval, "scrape_timeout": interval}
        config = self._folder / "prometheus.json"  # which is YAML
        config.write_text(
            json.dumps({"global": timing, "rule_files": [str(file) for file in rules], "scrape_configs": jobs})
        )
        self._start(
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder / DATA}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        )

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query. Raises OSError, also for a query that Prometheus refuses."""
        answer = json.loads(self.page(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        series: list[dict[str, Any]] = answer["data"]["result"]
        return series
