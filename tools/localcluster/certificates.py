"""Certificate authorities of one cluster and the certificates they sign, made with the openssl command.

Kubernetes reads the identity from the subject: CN is the user, O are the groups.
"""

from __future__ import annotations

import base64
import ipaddress
import secrets
from pathlib import Path

from tools.localcluster.host import commands

VALID_DAYS = "3650"  # longer than the life of any local cluster


def make_authority(folder: Path, *, name: str = "koord-suite-local") -> None:
    """Write ca.crt and ca.key."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    _make_key(folder / "ca.key")
    commands.run(
        ["openssl", "req", "-x509", "-new", "-key", folder / "ca.key", "-subj", f"/CN={name}",
         "-days", VALID_DAYS, "-out", folder / "ca.crt"]
    )  # fmt: skip


def make_token_keys(folder: Path) -> None:
    """Write the key pair that signs service-account tokens: sa.key and sa.pub."""
    _make_key(folder / "sa.key")
    commands.run(["openssl", "pkey", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"])


def sign(folder: Path, name: str, *, user: str, group: str | None = None, addresses: tuple[str, ...] = ()) -> None:
    """Write NAME.crt and NAME.key, signed by the authority in `folder`.

    With addresses (IPs or DNS names) the certificate serves them; without, it identifies a client.
    """
    key, request, signed, extensions = (folder / f"{name}.{kind}" for kind in ("key", "csr", "new", "ext"))
    subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
    _make_key(key)
    extensions.write_text(extension_lines(addresses))
    commands.run(["openssl", "req", "-new", "-key", key, "-subj", subject, "-out", request])
    commands.run(
        ["openssl", "x509", "-req", "-in", request, "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
         "-set_serial", secrets.randbits(63), "-days", VALID_DAYS, "-extfile", extensions, "-out", signed]
    )  # fmt: skip
    signed.rename(folder / f"{name}.crt")  # whole, or not there, when a command is killed
    request.unlink()
    extensions.unlink()


def extension_lines(addresses: tuple[str, ...]) -> str:
    """Return openssl's extension file of a server (with addresses) or of a client (without)."""
    lines = ["keyUsage=critical,digitalSignature,keyEncipherment"]
    if addresses:
        named = [f"{'IP' if _is_ip_address(address) else 'DNS'}:{address}" for address in addresses]
        lines += ["extendedKeyUsage=serverAuth", f"subjectAltName={','.join(named)}"]
    else:
        lines.append("extendedKeyUsage=clientAuth")
    return "\n".join(lines) + "\n"


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def embedded(file: Path) -> str:
    """Return a certificate or key as a kubeconfig embeds it."""
    return base64.b64encode(file.read_bytes()).decode()


def _make_key(file: Path) -> None:
    commands.run(["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", file])
    file.chmod(0o600)
