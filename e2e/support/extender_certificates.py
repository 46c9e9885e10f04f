"""Certificates for mutual TLS: of the extender, of its callers, and of an authority that neither trusts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.localcluster import certificates

EXTENDER, CALLERS, STRANGERS = "extender", "callers", "strangers"


def made(folders: pytest.TempPathFactory, *served: str) -> dict[str, Path]:
    """Make one folder for each, an authority `ca.crt` and a certificate `one.crt`; the extender's is for addresses."""
    found = {name: folders.mktemp(name) for name in (EXTENDER, CALLERS, STRANGERS)}
    for name, folder in found.items():
        certificates.make_authority(folder)
        certificates.sign(folder, "one", user=name, addresses=served if name == EXTENDER else ())
    return found


def mounted(identities: dict[str, Path], folder: Path) -> Path:
    """Fill a folder as the chart mounts the extender's Secrets into its container."""
    (folder / "callers").mkdir()
    for name, source in {
        "tls.crt": identities[EXTENDER] / "one.crt",
        "tls.key": identities[EXTENDER] / "one.key",
        "callers/ca.crt": identities[CALLERS] / "ca.crt",
    }.items():
        shutil.copy(source, folder / name)
    return folder


def client(identities: dict[str, Path], name: str = CALLERS) -> dict[str, str]:
    """Return `tlsConfig` of a kube-scheduler."""
    files = {
        "caFile": identities[EXTENDER] / "ca.crt",
        "certFile": identities[name] / "one.crt",
        "keyFile": identities[name] / "one.key",
    }
    return {key: str(file) for key, file in files.items()}
