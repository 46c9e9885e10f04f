"""TLS of the verbs, for a kube-scheduler that calls over a network: our certificate, and whose callers are let in.

A caller of the bind verb makes a pod count on a node, so whoever can reach the port can steer placement: on a network
callers show a client certificate of an authority of their own (`tlsConfig` of the extender in kube-scheduler's file).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 60.0  # a kubelet takes about as long to bring a renewed Secret


class UnusableCertificate(Exception):
    """A certificate, key or authority that cannot be loaded; says which files and why."""


@dataclass(slots=True)
class ServerTls:
    """A TLS context that follows its files: certificates are renewed while we run.

    An authority that `client_ca_file` no longer names is believed until the process ends.
    """

    certificate_file: str
    key_file: str
    client_ca_file: str | None = None
    """Callers must show a certificate of one of these authorities; None: anybody may call."""
    context: ssl.SSLContext = field(init=False)
    """For new connections."""
    _loaded: tuple[int, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.client_ca_file is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.load()

    def load(self) -> bool:
        """Read the files if they have changed; whether they had. Raises UnusableCertificate, the last ones stay."""
        files = [each for each in (self.certificate_file, self.key_file, self.client_ca_file) if each is not None]
        try:
            found = tuple(Path(each).stat().st_mtime_ns for each in files)
            if found == self._loaded:
                return False
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):  # tried first: a failure spoils it
                context.load_cert_chain(self.certificate_file, self.key_file)
            if self.client_ca_file is not None:
                self.context.load_verify_locations(self.client_ca_file)
        except OSError as error:  # an ssl.SSLError is one, too
            raise UnusableCertificate(
                f"cannot load {', '.join(files)}: {error.strerror or error}; want PEM files of a certificate, its key"
                f"{' and the authority of the callers' if self.client_ca_file else ''}"
            ) from error
        self._loaded = found
        return True

    async def follow(self) -> None:
        """Look for renewed files, for ever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if self.load():
                    log.info("the certificate %s was renewed", self.certificate_file)
            except UnusableCertificate as error:
                log.error("%s; going on with the last ones", error)  # noqa: TRY400  # the message is the whole story
