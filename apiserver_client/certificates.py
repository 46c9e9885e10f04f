"""Keep the TLS context of a connection up to date with the files of its certificates, and with its exec program."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import Final

from apiserver_client import connection, errors

logger = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Certificates:
    """TLS context of a connection. Raises NoCredentials when the first one cannot be made."""

    def __init__(self, to: connection.Connection) -> None:
        self._to = to
        paths = (to.ca_path, to.client_certificate_path, to.client_key_path)
        self._paths: Final = tuple(path for path in paths if path is not None)
        self._stamp = self._stamp_of_files()
        self._certificate: bytes | None = None
        self._problem = ""
        self.first = to.tls_context()
        self._context = self.first

    def current(self, credential: connection.Credential) -> ssl.SSLContext | None:
        """Return the context for new connections; the last one while changed files cannot be loaded.

        Raises NoCredentials for a certificate of the credential that cannot be loaded.
        """
        if self._context is None:
            return None
        stamp = self._stamp_of_files()
        if (stamp, credential.certificate) != (self._stamp, self._certificate):
            self._renew(stamp, credential.certificate)
        return self._context

    def _renew(self, stamp: _Stamp, certificate: bytes | None) -> None:
        try:
            context = self._to.tls_context()
        except errors.NoCredentials as error:  # files that are being replaced: tried again before the next request
            if str(error) != self._problem:
                self._problem = str(error)
                logger.warning("%s; keeping the last certificates until then", error)
            return
        if context is not None and certificate is not None:
            _load(context, certificate, self._to.origin)
        self._stamp, self._certificate, self._context, self._problem = stamp, certificate, context, ""

    def _stamp_of_files(self) -> _Stamp:
        return tuple(map(_stamp, self._paths))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _load(context: ssl.SSLContext, certificate: bytes, origin: str) -> None:
    """Load a certificate with its key. The library reads files only, so this one exists in memory only."""
    descriptor = os.memfd_create("client-certificate")
    try:
        os.write(descriptor, certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")  # a key with a password must not ask for it
    except (OSError, ValueError) as error:
        raise errors.NoCredentials(
            f"{origin}: cannot load the client certificate of the credential program: {error}"
        ) from error
    finally:
        os.close(descriptor)
