"""Define the address of the kube-apiserver and the client's identity, as plain values. No connection is opened here.

The manager gives these values to kopf, which has a client of its own; other callers pass them to a `Session`.

`Body` decodes a chunked body (RFC 9112, 7.1) from the bytes of its connection, which the caller owns. A watch has a
chunk for each event. A library in Python spends more on a chunk than the event itself costs; here one loop takes all
the chunks that arrived together.
"""

from __future__ import annotations

import binascii
import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from apiserver_client import errors

_LINE_END: Final = b"\r\n"
_LONGEST_SIZE_LINE: Final = 4096
_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")


class MalformedChunk(ValueError):
    """Bytes that are not a chunked body."""


class Body:
    """Decoder of bytes that are split anywhere. `ended` is set after the last chunk; later bytes are ignored."""

    def __init__(self) -> None:
        self.ended = False
        self._missing = 0
        """Bytes of the present chunk that have not arrived."""
        self._begun = b""
        """Start of a size line that has not arrived completely."""
        self._before_size = b""
        """End of the chunk before, which precedes a size line."""

    def decode(self, data: bytes) -> bytes:
        """Return the bytes of the body in `data`. Raises MalformedChunk."""
        pieces = []
        if self._begun:
            data, self._begun = self._begun + data, b""
        at = 0
        while at < len(data) and not self.ended:
            if self._missing:
                piece = data[at : at + self._missing]
                pieces.append(piece)
                at += len(piece)
                self._missing -= len(piece)
                continue
            lead = data[at : at + len(self._before_size)]
            if not self._before_size.startswith(lead):
                raise MalformedChunk(f"{data[at : at + 40]!r} where the end of a chunk is expected")
            end = data.find(_LINE_END, at + len(lead))
            if end < 0:
                self._begun = data[at:]
                if len(self._begun) > _LONGEST_SIZE_LINE:
                    raise MalformedChunk(f"no size of a chunk in {len(self._begun)} bytes: {self._begun[:40]!r}")
                break
            self._missing = _size(data[at + len(lead) : end])
            self._before_size = _LINE_END
            self.ended = self._missing == 0
            at = end + len(_LINE_END)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not digits or not _HEXADECIMAL.issuperset(digits):
        raise MalformedChunk(f"{line[:40]!r} where the size of a chunk is expected")
    return int(digits, 16)


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A program that prints an `ExecCredential`: a token, a client certificate or both (`users[].user.exec`)."""

    api_version: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    cluster: str = ""
    """JSON of the cluster that the program gets to know (`provideClusterInfo`); empty for none."""


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """Identity that requests are sent with: a value of the Authorization header, a client certificate, or both."""

    header: str | None = None
    certificate: bytes | None = None
    """Client certificate and its key, as PEM; None where the connection itself has it, or none."""

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"Credential(header={self.header is not None}, certificate={self.certificate is not None})"


@dataclass(frozen=True, slots=True, repr=False)
class Connection:
    """Server, trust and identity. Paths are absolute; `..._data` is PEM; of path and data at most one is given.

    `read_token` reads `token_path` again at each call, because the kubelet rotates the token. `origin` names the source
    of the values, for error messages. `repr` contains no secrets.
    """

    server: str
    origin: str
    namespace: str = "default"
    ca_path: Path | None = None
    ca_data: bytes | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    token: str | None = None
    token_path: Path | None = None
    username: str | None = None
    password: str | None = None
    exec_command: ExecCommand | None = None
    client_certificate_path: Path | None = None
    client_certificate_data: bytes | None = None
    client_key_path: Path | None = None
    client_key_data: bytes | None = None
    impersonated_user: str = ""
    """User that the apiserver authorizes in place of the client; empty for the client itself."""
    impersonated_groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Take user and password out of the address, which is shown in errors and logs."""
        scheme, _, rest = self.server.partition("://")
        user, at, host = rest.rpartition("@")
        if at:
            object.__setattr__(self, "server", f"{scheme}://{host}")
            if self.username is None:
                name, _, password = user.partition(":")
                object.__setattr__(self, "username", unquote(name))
                object.__setattr__(self, "password", unquote(password))

    def __repr__(self) -> str:
        """Return a text without secrets, which may be logged."""
        return f"Connection(server={self.server!r}, namespace={self.namespace!r}, origin={self.origin!r})"

    def read_token(self) -> str | None:
        """Return the present bearer token; None without one. Raises NoCredentials when its file has none."""
        if self.token_path is None:
            return self.token
        try:
            token = self.token_path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise errors.NoCredentials(f"cannot read the token in {self.token_path}: {error}") from error
        if not token:
            raise errors.NoCredentials(f"the token file {self.token_path} is empty")
        return token

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a context that trusts only the CA of the cluster; None for a server without TLS.

        Raises NoCredentials when a certificate or key is missing or invalid.
        """
        if not self.server.startswith("https://"):
            return None
        if self.insecure and (self.ca_path or self.ca_data):
            raise errors.NoCredentials(
                f"{self.origin}: insecure-skip-tls-verify and a certificate authority are both set, want one of them"
            )
        try:
            if self.ca_path and not (self.client_certificate_path or self.client_certificate_data):
                return ssl.create_default_context(cafile=self.ca_path)
            return self._kubeconfig_context()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            paths = (self.ca_path, self.client_certificate_path, self.client_key_path)
            used = ", ".join(str(path) for path in paths if path) or "data in the kubeconfig"
            raise errors.NoCredentials(
                f"{self.origin}: cannot load the certificates or the key ({used}): {error}"
            ) from error

    def _kubeconfig_context(self) -> ssl.SSLContext:
        from lightkube.config import client_adapter, models  # noqa: PLC0415  # 4 MiB, which no pod needs

        cluster = models.Cluster(
            server=self.server,
            certificate_auth=_text(self.ca_path),
            certificate_auth_data=_base64(self.ca_data),
            insecure=self.insecure,
        )
        user = models.User(
            client_cert=_text(self.client_certificate_path),
            client_cert_data=_base64(self.client_certificate_data),
            client_key=_text(self.client_key_path),
            client_key_data=_base64(self.client_key_data),
        )
        return client_adapter.verify_cluster(cluster, user, lambda path: path, trust_env=False)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _base64(pem: bytes | None) -> str | None:
    return None if pem is None else binascii.b2a_base64(pem, newline=False).decode("ascii")


logger = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Certificates:
    """TLS context of a connection. Raises NoCredentials when the first one cannot be made."""

    def __init__(self, to: Connection) -> None:
        self._to = to
        paths = (to.ca_path, to.client_certificate_path, to.client_key_path)
        self._paths: Final = tuple(path for path in paths if path is not None)
        self._stamp = self._stamp_of_files()
        self._certificate: bytes | None = None
        self._problem = ""
        self.first = to.tls_context()
        self._context = self.first

    def current(self, credential: Credential) -> ssl.SSLContext | None:
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
            _load_certificate(context, certificate, self._to.origin)
        self._stamp, self._certificate, self._context, self._problem = stamp, certificate, context, ""

    def _stamp_of_files(self) -> _Stamp:
        return tuple(map(_file_stamp, self._paths))


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _load_certificate(context: ssl.SSLContext, certificate: bytes, origin: str) -> None:
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
