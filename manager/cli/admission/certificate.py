"""The certificate of the webhook: made and read, and kept in its Secret, in the webhook configuration and in TLS.

The certificate is signed by its own key, so it is its own authority. The bundle that the API server trusts has the new
certificate and the one before it: replicas that still serve the earlier one are trusted until they have the new one.

Every replica does this, in this order: read the Secret, or write a new certificate to it; make the API server trust
it; serve it. Whether a new one is due is decided by the clock of the API server. The Secret and the configuration are
replaced with their versions, so of two replicas one writes, and the other reads again.
"""

from __future__ import annotations

import base64
import datetime as dt
import logging
import math
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from apiserver_client import objects, resources, session
from manager.cli.admission.settings import AdmissionSettings

log = logging.getLogger(__name__)

LIFETIME: Final = dt.timedelta(days=365)
RENEWAL: Final = dt.timedelta(days=90)
"""Time before the end at which a certificate is renewed: replicas that are away for weeks keep a valid one."""
_CLOCK_SKEW: Final = dt.timedelta(hours=1)
"""A certificate is valid this long before it is made, for API servers whose clock is behind."""
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    exceptions.UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
)


class CertificatePair(NamedTuple):
    """A certificate and its key as PEM, and the certificates that the API server trusts."""

    certificate: bytes
    key: bytes
    bundle: bytes


def make(host: str, now: dt.datetime, before: bytes = b"") -> CertificatePair:
    """Return a new certificate for a host name; `before` is the bundle so far, of which the newest stays trusted."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "koord-suite-admission")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return CertificatePair(text, private, text + _newest(before, now))


def problem(pair: CertificatePair, host: str, now: dt.datetime) -> str:
    """Return the reason for which a certificate has to be made again; empty while it may be used."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
        trusted = x509.load_pem_x509_certificates(pair.bundle)
        hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_of_key = certificate.public_key() == key.public_key()
    except _UNREADABLE as error:
        return f"it cannot be read: {error}" if pair.certificate else "there is none"
    if not is_of_key:
        return "its key is of another certificate"
    if certificate not in trusted:
        return "the bundle lacks it"
    if host not in hosts.get_values_for_type(x509.DNSName):
        return f"it is for another host than {host}"
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEWAL:
        return f"it is valid until {certificate.not_valid_after_utc:%Y-%m-%d}"
    return ""


def _newest(bundle: bytes, now: dt.datetime) -> bytes:
    """Return the first certificate of a bundle that is still valid; empty where none can be read."""
    try:
        trusted = x509.load_pem_x509_certificates(bundle)
    except _UNREADABLE:
        return b""
    valid = [certificate for certificate in trusted if now < certificate.not_valid_after_utc]
    return valid[0].public_bytes(serialization.Encoding.PEM) if valid else b""


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


@dataclass(eq=False)
class CertificateStore:
    """The certificate of this replica."""

    api: session.Session
    settings: AdmissionSettings
    context: ssl.SSLContext
    clock: Callable[[], dt.datetime]

    def __post_init__(self) -> None:
        self._served: CertificatePair | None = None

    @property
    def end_seconds(self) -> float:
        """Return the end of the certificate that is served, as a timestamp; NaN without one."""
        if self._served is None:
            return math.nan
        return x509.load_pem_x509_certificate(self._served.certificate).not_valid_after_utc.timestamp()

    async def check(self) -> None:
        """Renew the certificate where that is due, and serve the one of the Secret. Raises errors.ApiServerError."""
        pair = await self._read_or_renew()
        await self._trust(pair.bundle)
        if pair != self._served:
            self._serve(pair)
            self._served = pair

    async def _read_or_renew(self) -> CertificatePair:
        name, namespace = self.settings.secret, self.settings.namespace
        secret = await objects.get(self.api, _SECRETS, name, namespace=namespace)
        data = secret.get("data") or {}
        pair = CertificatePair(*(_decoded(data.get(key)) for key in (CERTIFICATE_FILE, KEY_FILE, _BUNDLE)))
        now = self._now()
        fault = problem(pair, self.settings.host, now)
        if not fault:
            return pair
        renewed = make(self.settings.host, now, pair.bundle)
        entries = {CERTIFICATE_FILE: renewed.certificate, KEY_FILE: renewed.key, _BUNDLE: renewed.bundle}
        body = {**secret, "data": {key: base64.b64encode(value).decode() for key, value in entries.items()}}
        await objects.replace(self.api, _SECRETS, name, body, namespace=namespace)
        log.info("Secret %s/%s: a new certificate was made: %s", namespace, name, fault)
        return renewed

    def _now(self) -> dt.datetime:
        """Return the clock of the API server, which checks the certificate: replicas agree, whatever their clocks."""
        local_time = self.clock()
        now = self.api.server_time or local_time
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
        name = self.settings.webhook_configuration
        configuration = await objects.get(self.api, _CONFIGURATIONS, name)
        bundle_text = base64.b64encode(bundle).decode()
        webhooks = configuration.get("webhooks") or []
        if all(hook.get("clientConfig", {}).get("caBundle") == bundle_text for hook in webhooks):
            return
        changed = [
            {**hook, "clientConfig": {**hook.get("clientConfig", {}), "caBundle": bundle_text}} for hook in webhooks
        ]
        await objects.replace(self.api, _CONFIGURATIONS, name, {**configuration, "webhooks": changed})
        log.info("MutatingWebhookConfiguration %s: its caBundle was replaced", name)

    def _serve(self, pair: CertificatePair) -> None:
        """Use a certificate for new connections; files for this user alone, as TLS contexts read nothing else."""
        folder = Path(self.settings.certificate_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        contents = {CERTIFICATE_FILE: pair.certificate, KEY_FILE: pair.key}
        for name, content in contents.items():
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        self.context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE)


def _decoded(value: object) -> bytes:
    """Return an entry of a Secret; one that cannot be decoded is empty."""
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        return b""
