"""Settings of the agent. Settings that may change at run time are in the NodeMetric's spec instead."""

from __future__ import annotations

import importlib.util
from typing import Final
from urllib.parse import urlsplit

import pydantic

from api_types.colocation import controller_config, document
from component_base import listening, settings

ENV_PREFIX: Final = "KOORDLET"
DEFAULT_HTTP_PORT: Final = 9316


class KoordletSettings(settings.ProcessSettings):
    """Settings of one process, validated once at the start and frozen."""

    node_name: str = pydantic.Field("", max_length=253)
    """Name of the node and of its NodeMetric; required by `run`."""
    host_root: str = "/"
    """Folder that contains the host's /proc, /sys/fs/cgroup and /sys/devices/system, such as /host in a container."""
    state_dir: str = "/var/lib/koordlet"
    """Folder of the prediction checkpoint; empty keeps the recorded history in memory only."""
    checkpoint_interval_seconds: int = pydantic.Field(600, ge=10, le=86400)
    """Time between two checkpoints, in seconds; one more is written on SIGTERM."""
    max_series: int = pydantic.Field(1500, ge=64, le=100_000)
    """Largest number of cached pods; samples of more are refused and counted."""
    http_address: str = listening.ALL_ADDRESSES
    """Address of /healthz, /readyz and /metrics. :: is every address of IPv6 and IPv4."""
    http_port: int = pydantic.Field(DEFAULT_HTTP_PORT, ge=0, le=65535)
    """Port of /healthz, /readyz and /metrics."""
    enable_debug_pages: bool = False
    """Serve /debug/samples: every cached raw sample, to verify a prediction by hand."""
    debug_port: int = pydantic.Field(9318, ge=0, le=65535)
    """Port of the debug pages, on 127.0.0.1 only: use kubectl exec or port-forward."""
    influxdb_url: str = ""
    """Address of an InfluxDB 2 to export to, such as https://influxdb:8086; empty disables the exporter."""
    influxdb_org: str = ""
    """Organization of the bucket."""
    influxdb_bucket: str = ""
    """Bucket to write to. It has to exist; its retention limits the exported history."""
    influxdb_token_file: str = ""
    """File with a token that may write to the bucket; read before each write, so the token may change."""
    influxdb_ca_file: str = ""
    """File with trusted certificate authorities (PEM) for https; empty uses those of the system."""
    influxdb_interval_seconds: int = pydantic.Field(10, ge=1, le=600)
    """Time between two points of a series, in seconds; a point is the mean over this time."""
    influxdb_timeout_seconds: float = pydantic.Field(5.0, ge=0.1, le=60)
    """Timeout of a request, in seconds."""
    influxdb_batch_points: int = pydantic.Field(1000, ge=1, le=10_000)
    """Largest number of points in one request."""
    influxdb_queue_points: int = pydantic.Field(10_000, ge=1, le=100_000)
    """Largest number of points queued while InfluxDB is away, 0.3 KB each; a full queue drops and counts the oldest."""
    predict_policy: str = ""
    """JSON of keys of predictPolicy, such as {"predictor": "percentile"}: in force where the spec leaves them out."""
    enable_suppression: bool = False
    """Lower the CPU limits of Mid pods above midSuppressThresholdPercent; needs the right to patch pods/resize."""

    @pydantic.field_validator("influxdb_url")
    @classmethod
    def _validate_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0):
            raise ValueError("want http://HOST:PORT or https://HOST:PORT")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "want an address without user, query or fragment; the token belongs in influxdb-token-file"
            )
        return url

    @pydantic.field_validator("predict_policy")
    @classmethod
    def _validate_policy(cls, text: str) -> str:
        _policy(text)
        return text

    def policy_below_spec(self) -> controller_config.PredictPolicy | None:
        """Return the policy in force where the spec leaves keys out; None without one."""
        return _policy(self.predict_policy)

    def required_for_run(self) -> list[str]:
        """Return the problems that prevent `run` although each setting is valid by itself."""
        problems = []
        if not self.node_name:
            problems = [f"node-name is not set: set --node-name or {ENV_PREFIX}_NODE_NAME (spec.nodeName of the pod)"]
        return problems + self._required_for_exporter()

    def _required_for_exporter(self) -> list[str]:
        if not self.influxdb_url:
            return []
        needed = ("influxdb_org", "influxdb_bucket", "influxdb_token_file")
        missing = [field.replace("_", "-") for field in needed if not getattr(self, field)]
        problems = [f"{name} is not set, but influxdb-url requires it: set --{name}" for name in missing]
        if self.influxdb_ca_file and not self.influxdb_url.startswith("https:"):
            problems.append(
                f"influxdb-ca-file is {self.influxdb_ca_file!r} but influxdb-url is {self.influxdb_url!r}:"
                " want an https address, or no CA file"
            )
        if importlib.util.find_spec("influxdb_client") is None:
            problems.append("influxdb-url is set, but influxdb-client is not installed: install koord-suite[influxdb]")
        return problems


def _policy(text: str) -> controller_config.PredictPolicy | None:
    if not text:
        return None
    strategy, problems = document.read_strategy(f'{{"nodePredictPolicy": {text}}}')
    if strategy is None:
        raise ValueError("; ".join(map(str, problems)))
    return strategy.node_predict_policy
