"""Extender as in a cluster, in a process of its own, with watches of `replay_apiserver`."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import pathlib
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import NamedTuple

import psutil
import yaml

from scheduler_plugin.app.extender_app import ExtenderApp
from scheduler_plugin.config import loader
from scheduler_plugin.settings import SchedulerPluginSettings


class Running(NamedTuple):
    """Ports and process of a running extender."""

    port: int
    http_port: int
    debug_port: int
    process: psutil.Process

    def page(self, path: str) -> str | None:
        """Return a page of the probe port; None for a status other than 200."""
        with (
            contextlib.suppress(urllib.error.HTTPError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}") as response,
        ):
            return str(response.read().decode())
        return None

    def metric(self, name: str) -> float:
        """Return the sum of the samples whose name (or name with labels) starts with koord_scheduler_plugin_`name`."""
        lines = (self.page("/metrics") or "").splitlines()
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"koord_scheduler_plugin_{name}")
        )

    def until_ready(self, timeout_seconds: float) -> float:
        """Wait until every list is complete; return the seconds."""
        began = time.monotonic()
        while self.page("/readyz") is None:
            if time.monotonic() - began > timeout_seconds:
                raise TimeoutError(f"not ready after {timeout_seconds} s")
            time.sleep(0.2)
        return time.monotonic() - began

    def memory_mebibytes(self) -> float:
        """Return the resident memory."""
        return float(self.process.memory_info().rss / 2**20)

    def cpu_seconds(self) -> float:
        """Return the CPU time since the start."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


def _kubeconfig(url: str) -> str:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


def _serve(ports_to: Connection, kubeconfig: str, plugin_socket: str | None) -> None:
    settings = SchedulerPluginSettings(
        plugin_socket=plugin_socket,
        extender_port=0,
        http_port=0,
        debug_port=0,
        http_address="127.0.0.1",
        kubeconfig=kubeconfig,
        startup_patience_seconds=3600,
    )
    app = ExtenderApp(settings, loader.load_all(None))

    async def serve() -> None:
        running = asyncio.create_task(app.run())
        while not (ports := app.ports):
            await asyncio.sleep(0.01)
        ports_to.send(ports)
        await running

    asyncio.run(serve())


@contextlib.contextmanager
def running(apiserver_url: str, plugin_socket: str | None = None) -> Iterator[Running]:
    """Run an extender with an apiserver, or the process of the plugin with a socket; it is not ready yet."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = pathlib.Path(folder, "kubeconfig")
        kubeconfig.write_text(_kubeconfig(apiserver_url), encoding="utf-8")
        receiver, sender = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(sender, str(kubeconfig), plugin_socket)
        )
        process.start()
        try:
            yield Running(*receiver.recv(), psutil.Process(process.pid))
        finally:
            process.terminate()
            process.join()
