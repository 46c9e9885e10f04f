"""Keep the certificate in its Secret, in the webhook configuration and in the TLS context of the server.

Every replica does this, in this order: read the Secret, or write a new certificate to it; make the API server trust
it; serve it. Whether a new one is due is decided by the clock of the API server. The Secret and the configuration are
replaced with their versions, so of two replicas one writes, and the other reads again.
"""

from __future__ import annotations

import base64
import datetime as dt
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from apiserver_client import objects, resources, session
from manager.cli.admission import certificate
from manager.cli.admission.certificate import CertificatePair
from manager.cli.admission.settings import AdmissionSettings

log = logging.getLogger(__name__)

CERTIFICATE_FILE, KEY_FILE = "tls.crt", "tls.key"
_BUNDLE: Final = "ca.crt"
_CLOCK_DIFFERENCE: Final = dt.timedelta(hours=1)
"""A larger difference between the clocks of this node and of the API server is logged."""
_SECRETS: Final = resources.Resource("", "v1", "secrets", "Secret", namespaced=True)
_CONFIGURATIONS: Final = resources.Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)


class CertificateStore:
    """The certificate of this replica."""

    def __init__(
        self,
        api: session.Session,
        settings: AdmissionSettings,
        context: ssl.SSLContext,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._api = api
        self._context = context
        self._settings = settings
        self._clock = clock
        self._served: CertificatePair | None = None

    async def check(self) -> None:
        """Renew the certificate where that is due, and serve the one of the Secret. Raises errors.ApiServerError."""
        pair = await self._read_or_renew()
        await self._trust(pair.bundle)
        if pair != self._served:
            self._serve(pair)
            self._served = pair

    async def _read_or_renew(self) -> CertificatePair:
        name, namespace = self._settings.secret, self._settings.namespace
        secret = await objects.get(self._api, _SECRETS, name, namespace=namespace)
        pair = _pair(secret.get("data") or {})
        now = self._now()
        problem = certificate.problem(pair, self._settings.host, now)
        if not problem:
            return pair
        renewed = certificate.make(self._settings.host, now, pair.bundle)
        data = {CERTIFICATE_FILE: renewed.certificate, KEY_FILE: renewed.key, _BUNDLE: renewed.bundle}
        body = {**secret, "data": {key: base64.b64encode(value).decode() for key, value in data.items()}}
        await objects.replace(self._api, _SECRETS, name, body, namespace=namespace)
        log.info("Secret %s/%s: a new certificate was made: %s", namespace, name, problem)
        return renewed

    def _now(self) -> dt.datetime:
        """Return the clock of the API server, which checks the certificate: replicas agree, whatever their clocks."""
        local_time = self._clock()
        now = self._api.server_time or local_time
        if abs(now - local_time) > _CLOCK_DIFFERENCE:
            log.warning(
                "the clock of this node is %s, that of the API server %s, which is used for the certificate; want less"
                " than %s between them: set the clock of the node",
                f"{local_time:%Y-%m-%d %H:%M}",
                f"{now:%Y-%m-%d %H:%M}",
                _CLOCK_DIFFERENCE,
            )
        return now

    async def _trust(self, bundle: bytes) -> None:
        """Make the API server trust the certificate, unless it does."""
        name = self._settings.webhook_configuration
        configuration = await objects.get(self._api, _CONFIGURATIONS, name)
        bundle_text = base64.b64encode(bundle).decode()
        webhooks = configuration.get("webhooks") or []
        if all(hook.get("clientConfig", {}).get("caBundle") == bundle_text for hook in webhooks):
            return
        changed = [
            {**hook, "clientConfig": {**hook.get("clientConfig", {}), "caBundle": bundle_text}} for hook in webhooks
        ]
        await objects.replace(self._api, _CONFIGURATIONS, name, {**configuration, "webhooks": changed})
        log.info("MutatingWebhookConfiguration %s: its caBundle was replaced", name)

    def _serve(self, pair: CertificatePair) -> None:
        """Use a certificate for new connections; files for this user alone, as TLS contexts read nothing else."""
        folder = Path(self._settings.certificate_folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        contents = {CERTIFICATE_FILE: pair.certificate, KEY_FILE: pair.key}
        for name, content in contents.items():
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        self._context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE)


def _pair(data: Mapping[str, Any]) -> CertificatePair:
    """Return what a Secret holds; an entry that cannot be decoded is empty."""
    return CertificatePair(*(_decoded(data.get(key)) for key in (CERTIFICATE_FILE, KEY_FILE, _BUNDLE)))


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        return b""
