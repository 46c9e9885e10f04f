"""TLS of the verbs, for a kube-scheduler that calls over a network: server certificate, and client authorities.

Every client of the port can influence placement: on a network callers present a client certificate of a dedicated
authority (`tlsConfig` of the extender in kube-scheduler's file).
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple


class UnusableCertificate(Exception):
    """A certificate, key or authority that cannot be loaded; the message names the files and the cause."""


class TlsFiles(NamedTuple):
    """PEM files."""

    certificate: str
    key: str
    client_ca: str | None = None
    """Callers must present a certificate of one of these authorities; None: every client may call."""

    def changed_at(self) -> list[int]:
        """Return the time of the last change of each file, 0 of a missing one."""
        paths = [Path(file) for file in self if file is not None]
        return [path.stat().st_mtime_ns if path.exists() else 0 for path in paths]

    def load(self) -> ssl.SSLContext:
        """Return a context for new connections. Raises UnusableCertificate."""
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.client_ca)
        except OSError as error:  # an ssl.SSLError is one, too
            files = ", ".join(file for file in self if file is not None)
            raise UnusableCertificate(
                f"cannot load {files}: {error.strerror or error}; want PEM files of a certificate, its key"
                f"{' and the authority of the callers' if self.client_ca else ''}"
            ) from error
        return context
