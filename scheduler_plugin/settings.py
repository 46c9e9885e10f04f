"""Settings of the process, from flags, environment (KOORD_SCHEDULER_...) or file. Policies have a file of their own."""

from __future__ import annotations

from typing import Annotated, Final, Self

import pydantic

from component_base import logs
from component_base.settings import Settings

ENV_PREFIX: Final = "KOORD_SCHEDULER"

Port = Annotated[int, pydantic.Field(ge=0, le=65535)]


class SchedulerPluginSettings(Settings):
    """Where it listens, what it reads, how it logs."""

    config: str | None = None
    """File with policies, weights and arguments, in the shape of a kube-scheduler profile; none: the defaults."""
    extender_address: str = "127.0.0.1"
    """Address kube-scheduler calls; it runs in the same pod, nobody else needs it."""
    extender_port: Port = 10261
    """Port kube-scheduler calls (urlPrefix in its configuration)."""
    extender_tls_cert_file: str | None = None
    """Certificate for kube-scheduler's calls, where they come over a network; followed when it is renewed. None: plain
    HTTP."""
    extender_tls_key_file: str | None = None
    """Key of that certificate."""
    extender_tls_client_ca_file: str | None = None
    """Authority of the callers' certificates; without one, whoever reaches the port can steer placement."""
    http_address: str = "0.0.0.0"  # noqa: S104  # the kubelet's probes come from outside the pod
    """Address of probes, metrics and debug pages."""
    http_port: Port = 10262
    """Port of probes, metrics and debug pages."""
    kubeconfig: str | None = None
    """Kubeconfig file; none: the service account of the pod, else the usual places."""
    startup_patience_seconds: Annotated[float, pydantic.Field(ge=0, le=3600)] = 30.0
    """How long kube-scheduler waits for the first lists; then it starts without us, which beats not scheduling."""
    notice_ttl_seconds: Annotated[float, pydantic.Field(gt=0, le=86400)] = 120.0
    """How long a pod counts on a node that only the bind notice named. Covers a slow apiserver, ends a lost binding."""
    short_list_nodes: Annotated[int, pydantic.Field(ge=0, le=15000)] = 0
    """Filter passes this many nodes at most, the best by score: less work for kube-scheduler, but its own preferences
    then rank within these only. 0: all that fit, in which the placement is that of an in-process plugin."""
    decision_record_mebibytes: Annotated[int, pydantic.Field(ge=0, le=1024)] = 16
    """Memory for what was decided about the last pods, and why (explain-pod): 57 KiB for a call about 500 nodes.
    0: nothing is kept."""
    measurement_interval_seconds: Annotated[float, pydantic.Field(ge=1, le=3600)] = 30.0
    """Pause between two looks at the providers of Trimaran's policies; without such a policy nobody is asked."""
    measurement_age_seconds: Annotated[float, pydantic.Field(ge=1, le=86400)] = 300.0
    """Older measurements count for nothing: Trimaran's policies then go by requests, or by what new pods will use."""
    rebuild_interval_seconds: Annotated[float, pydantic.Field(ge=0, le=86400)] = 3600.0
    """How often everything is listed again and compared with what is held; costs seconds of CPU. 0: never."""
    max_body_mebibytes: Annotated[int, pydantic.Field(ge=1, le=1024)] = 32
    """Largest request taken. 15,000 node names are 0.7 MiB; whole nodes (nodeCacheCapable: false) are 13 kB each."""
    log_format: logs.LogFormat = logs.LogFormat.TEXT
    """text or json."""
    log_level: logs.LogLevel = logs.LogLevel.INFO
    """debug, info, warning or error."""

    @pydantic.model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.extender_tls_cert_file is None) != (self.extender_tls_key_file is None):
            raise ValueError("--extender-tls-cert-file and --extender-tls-key-file go together: give both or neither")
        if self.extender_tls_client_ca_file is not None and self.extender_tls_cert_file is None:
            raise ValueError("--extender-tls-client-ca-file needs --extender-tls-cert-file and --extender-tls-key-file")
        return self
