"""Settings of the process, from flags, environment (KOORD_SCHEDULER_...) or file. Plugins have a separate file."""

from __future__ import annotations

from typing import Annotated, Final, Self

import pydantic

from component_base import listening
from component_base.settings import ProcessSettings

ENV_PREFIX: Final = "KOORD_SCHEDULER"

Port = Annotated[int, pydantic.Field(ge=0, le=65535)]


class SchedulerPluginSettings(ProcessSettings):
    """Addresses, files, intervals and limits."""

    config: str | None = None
    """File with plugins, weights and arguments, in the form of a kube-scheduler profile; none: the defaults."""
    extender_address: str = "127.0.0.1"
    """Address that kube-scheduler calls. The default serves a kube-scheduler in the same pod only."""
    extender_port: Port = 10261
    """Port that kube-scheduler calls (urlPrefix in its configuration)."""
    extender_tls_cert_file: str | None = None
    """Server certificate for calls over a network; reloaded when it is renewed. None: plain HTTP."""
    extender_tls_key_file: str | None = None
    """Key of that certificate."""
    extender_tls_client_ca_file: str | None = None
    """Authority of the callers' certificates; without one, every client of the port can influence placement."""
    plugin_socket: str | None = None
    """Unix socket for the plugin KoordSuite inside kube-scheduler, in place of the extender."""
    http_address: str = listening.ALL_ADDRESSES
    """Address of probes and metrics. :: is every address of IPv6 and IPv4."""
    http_port: Port = 10262
    """Port of probes and metrics."""
    debug_port: Port = 10263
    """Port of the debug pages, on 127.0.0.1 only: use kubectl exec or port-forward."""
    manager_namespace: str | None = None
    """Namespace of koord-manager, whose configuration may freeze Mid; none: the one of the credentials."""
    startup_patience_seconds: Annotated[float, pydantic.Field(ge=0, le=3600)] = 30.0
    """How long kube-scheduler waits for the first lists; then it starts and schedules without the extender."""
    decision_record_mebibytes: Annotated[int, pydantic.Field(ge=0, le=1024)] = 16
    """Memory for the records of the last decisions: 45 KiB for a call with 500 nodes. 0: no records."""
    measurement_interval_seconds: Annotated[float, pydantic.Field(ge=1, le=3600)] = 30.0
    """Interval at which the metrics providers are read; used only if a Trimaran plugin runs."""
    measurement_max_age_seconds: Annotated[float, pydantic.Field(ge=1, le=86400)] = 300.0
    """Older measurements are discarded: Trimaran's plugins then use requests, or the expected usage of new pods."""
    measurement_file: str | None = None
    """SQLite file of the last hour of measurements, which a restarted process uses at once. None: memory only. Each
    replica needs its own file."""

    @pydantic.model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.extender_tls_cert_file is None) != (self.extender_tls_key_file is None):
            raise ValueError("--extender-tls-cert-file and --extender-tls-key-file go together: give both or neither")
        if self.extender_tls_client_ca_file is not None and self.extender_tls_cert_file is None:
            raise ValueError("--extender-tls-client-ca-file needs --extender-tls-cert-file and --extender-tls-key-file")
        return self
