"""Define the address of the kube-apiserver and the client's identity, as plain values. No connection is opened here.

The manager gives these values to kopf, which has a client of its own; other callers pass them to a `Session`.
"""

from __future__ import annotations

import binascii
import ssl
from dataclasses import dataclass
from pathlib import Path

from lightkube.config import client_adapter, models

from apiserver_client import errors


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
        try:
            return client_adapter.verify_cluster(cluster, user, lambda path: path, trust_env=False)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            paths = (self.ca_path, self.client_certificate_path, self.client_key_path)
            used = ", ".join(str(path) for path in paths if path) or "data in the kubeconfig"
            raise errors.NoCredentials(
                f"{self.origin}: cannot load the certificates or the key ({used}): {error}"
            ) from error


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _base64(pem: bytes | None) -> str | None:
    return None if pem is None else binascii.b2a_base64(pem, newline=False).decode("ascii")
