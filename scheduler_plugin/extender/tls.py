"""TLS of the verbs, for a kube-scheduler that calls over a network: server certificate, and client authorities.

A caller of the bind verb makes a pod count on a node, so every client of the port can influence placement: on a network
callers present a client certificate of a dedicated authority (`tlsConfig` of the extender in kube-scheduler's file).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio import sslproto
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 60.0  # a kubelet takes about as long to mount a renewed Secret
_READ_BYTES: Final = 64 * 1024
"""asyncio allocates so much for a connection before its handshake, by default 256 KiB. A record of TLS has 16 KiB."""


class UnusableCertificate(Exception):
    """A certificate, key or authority that cannot be loaded; the message names the files and the cause."""


@dataclass(slots=True)
class ServerTls:
    """A TLS context that follows its files: renewed certificates and authorities count for new connections."""

    certificate_file: str
    key_file: str
    client_ca_file: str | None = None
    """Callers must present a certificate of one of these authorities; None: every client may call."""
    _context: ssl.SSLContext = field(init=False)
    _loaded: tuple[int, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        sslproto.SSLProtocol.max_size = _READ_BYTES
        self.load()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        return self._context

    def load(self) -> bool:
        """Load the files if they changed, and return whether they did.

        Raises UnusableCertificate; the last certificate stays in use.
        """
        files = [file for file in (self.certificate_file, self.key_file, self.client_ca_file) if file is not None]
        try:
            times = tuple(Path(file).stat().st_mtime_ns for file in files)
            if times == self._loaded:
                return False
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(self.certificate_file, self.key_file)
            if self.client_ca_file is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.client_ca_file)
        except OSError as error:  # an ssl.SSLError is one, too
            raise UnusableCertificate(
                f"cannot load {', '.join(files)}: {error.strerror or error}; want PEM files of a certificate, its key"
                f"{' and the authority of the callers' if self.client_ca_file else ''}"
            ) from error
        self._context, self._loaded = context, times
        return True

    async def follow(self) -> None:
        """Load renewed files until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            try:
                if self.load():
                    log.info("loaded the renewed certificate %s", self.certificate_file)
            except UnusableCertificate as error:
                log.error("%s; keeping the last certificate", error)  # noqa: TRY400  # a traceback adds nothing
