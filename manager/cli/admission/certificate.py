"""Make and read the certificate of the webhook. No I/O.

The certificate is signed by its own key, so it is its own authority. The bundle that the API server trusts has the new
certificate and the one before it: replicas that still serve the earlier one are trusted until they have the new one.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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
