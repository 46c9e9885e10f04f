"""Settings of the admission webhook's process."""

from __future__ import annotations

from typing import Final

import pydantic

from api_types import names
from component_base import listening, settings

ENV_PREFIX: Final = "ADMISSION"


class AdmissionSettings(settings.ProcessSettings):
    """Settings, validated once at start, frozen."""

    namespace: str = pydantic.Field(names.NAMESPACE, min_length=1, max_length=63)
    """Namespace of the Secret and of the Service."""
    service: str = pydantic.Field("koord-admission", min_length=1, max_length=63)
    """Service of the webhook; the certificate is for SERVICE.NAMESPACE.svc."""
    secret: str = pydantic.Field("koord-admission-certificate", min_length=1, max_length=253)
    """Secret that holds the certificate; it exists before the process starts."""
    webhook_configuration: str = pydantic.Field("koord-suite-mid-limits", min_length=1, max_length=253)
    """MutatingWebhookConfiguration whose caBundle is kept up to date."""
    scheduler_name: str = ""
    """Scheduler of Mid pods that name none; empty keeps the default."""
    native_limits: bool = True
    """Set native limits; without them Mid pods stay BestEffort."""
    certificate_dir: str = pydantic.Field("/run/koord-admission", min_length=1)
    """Folder for tls.crt and tls.key, which no other process reads."""
    certificate_check_seconds: float = pydantic.Field(60.0, ge=0.05, le=3600.0)
    """Time between two checks of the certificate."""
    port: int = pydantic.Field(9443, ge=1, le=65535)
    """Port of the webhook."""
    http_address: str = listening.ALL_ADDRESSES
    """Address of /healthz, /readyz and /metrics. :: is every address of IPv6 and IPv4."""
    http_port: int = pydantic.Field(9318, ge=0, le=65535)
    """Port of /healthz, /readyz and /metrics."""

    @property
    def host(self) -> str:
        """Name under which the API server reaches the webhook."""
        return f"{self.service}.{self.namespace}.svc"
