"""Certificates for mutual TLS: of the extender, of its callers, and of an authority that neither trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.localcluster import certificates

EXTENDER, CALLERS, STRANGERS = "extender", "callers", "strangers"


def made(folders: pytest.TempPathFactory, served: str) -> dict[str, Path]:
    """Make one folder for each, with an authority `ca.crt` and a certificate `one.crt` that serves the given name."""
    found = {name: folders.mktemp(name) for name in (EXTENDER, CALLERS, STRANGERS)}
    for name, folder in found.items():
        certificates.make_authority(folder)
        certificates.sign(folder, "one", user=name, addresses=(served,) if name == EXTENDER else ())
    return found
