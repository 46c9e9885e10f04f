"""Make self-signed certificates for loopback by openssl, valid for a day: each is its own authority."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    certificate_path: Path
    key_path: Path

    def server_context(self, trusted_clients: Certificate | None = None) -> ssl.SSLContext:
        """Return the server context of this certificate; `trusted_clients` makes it require client certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate_path, self.key_path)
        if trusted_clients:
            context.load_verify_locations(trusted_clients.certificate_path)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make(folder: Path, name: str, *, alternative: str = "IP:127.0.0.1") -> Certificate:
    """Make a certificate for `alternative` (a subjectAltName of openssl) in `folder`."""
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName={alternative}"]
    command += ["-keyout", str(made.key_path), "-out", str(made.certificate_path)]
    subprocess.run(command, check=True, capture_output=True)
    return made


def replace(path: Path, content: Path) -> None:
    """Replace a file as kubelet and kubectl do: by renaming another one."""
    new = path.with_suffix(".new")
    shutil.copy(content, new)
    new.replace(path)
