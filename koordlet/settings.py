"""Settings of the agent. What may change while it runs stands in the NodeMetric's spec instead."""

from __future__ import annotations

from typing import Final

import pydantic

from daemon import logs, settings

ENV_PREFIX: Final = "KOORDLET"
DEFAULT_HTTP_PORT: Final = 9316


class KoordletSettings(settings.Settings):
    """Validated once at start, frozen."""

    node_name: str = pydantic.Field("", max_length=253)
    """Name of the node the agent runs on, which is also the name of its NodeMetric; needed by `run`."""
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""
    host_root: str = "/"
    """Folder under which the host's /proc and /sys/fs/cgroup are found, such as /host in a container."""
    state_dir: str = "/var/lib/koordlet"
    """Folder of the prediction checkpoint; empty keeps the history in memory only."""
    checkpoint_interval_seconds: int = pydantic.Field(600, ge=10, le=86400)
    """Time between two checkpoints, in seconds; one more is written on SIGTERM."""
    max_series: int = pydantic.Field(1500, ge=64, le=100_000)
    """Most pods and containers held at once; samples of more are refused and counted."""
    http_address: str = "0.0.0.0"  # noqa: S104  # kubelet probes reach a pod from outside
    """Address of /healthz, /readyz and /metrics."""
    http_port: int = pydantic.Field(DEFAULT_HTTP_PORT, ge=0, le=65535)
    """Port of /healthz, /readyz and /metrics."""
    enable_debug_pages: bool = False
    """Serve /debug/samples and /debug/predictions: every raw sample held, for checking a prediction by hand."""
    log_format: logs.LogFormat = logs.LogFormat.TEXT
    """How a log line looks: text or json."""
    log_level: logs.LogLevel = logs.LogLevel.INFO
    """From which level on lines are written: debug, info, warning or error."""

    def required_for_run(self) -> list[str]:
        """Problems that keep `run` from starting though the settings are valid."""
        if not self.node_name:
            return [f"node-name is not set: give --node-name or {ENV_PREFIX}_NODE_NAME (spec.nodeName of the pod)"]
        return []
