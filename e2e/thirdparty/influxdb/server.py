"""influxd as a child process on loopback that can be stopped and started again with its data."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import urllib.request
from pathlib import Path

from influxdb_client import InfluxDBClient

from e2e.thirdparty.influxdb import build
from tools.localcluster import progress
from tools.localcluster.host import ports

ORG, BUCKET, TOKEN = "koord", "history", "a-token-that-may-do-everything"
READY_SECONDS, END_SECONDS = 60.0, 30.0


class Influxd:
    """One server with its data in `folder`; it keeps its port over a restart."""

    def __init__(self, folder: Path) -> None:
        self._binary = build.binary()
        self._folder = folder
        self._port = ports.free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and wait until it is healthy."""
        argv = [
            str(self._binary), "run", f"--http-bind-address=127.0.0.1:{self._port}", "--reporting-disabled",
            f"--bolt-path={self._folder}/bolt", f"--sqlite-path={self._folder}/sqlite",
            f"--engine-path={self._folder}/engine",
        ]  # fmt: skip
        environment = {**os.environ, "INFLUXD_CONFIG_PATH": str(self._folder)}
        with (self._folder / "influxd.log").open("ab") as log:
            self._process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, cwd=self._folder)
        progress.wait_until("influxd healthy", self._is_healthy, READY_SECONDS, otherwise=self._explain)

    def set_up(self) -> None:
        """Make the organization, the bucket and the token that may do everything."""
        account = {"username": "test", "password": "only-for-this-test"}
        document = {**account, "org": ORG, "bucket": BUCKET, "token": TOKEN}
        request = urllib.request.Request(f"{self.url}/api/v2/setup", json.dumps(document).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=READY_SECONDS):
            pass

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

    def flux(self, pipeline: str) -> list[dict[str, object]]:
        """Return the rows of `from(bucket) |> range(everything) |> pipeline`."""
        query = f'from(bucket: "{BUCKET}") |> range(start: 0) |> {pipeline}'
        with InfluxDBClient(self.url, TOKEN, org=ORG, timeout=30_000) as client:
            return [record.values for table in client.query_api().query(query) for record in table.records]

    def _is_healthy(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            self._explain()
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == http.client.OK)
        except OSError:
            return False

    def _explain(self) -> None:
        end = (self._folder / "influxd.log").read_text(errors="replace")[-2000:]
        raise AssertionError(f"influxd at {self.url} does not become healthy; the end of its log:\n{end}")
