"""Who is who where both ends of a connection show a certificate: the extender, its callers, and strangers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.localcluster import certificates

EXTENDER, CALLERS, STRANGERS = "extender", "callers", "strangers"


def made(folders: pytest.TempPathFactory, served: str) -> dict[str, Path]:
    """A folder each with an authority, `ca.crt`, and `one.crt` of it, by which the extender serves a name."""
    found = {name: folders.mktemp(name) for name in (EXTENDER, CALLERS, STRANGERS)}
    for name, folder in found.items():
        certificates.make_authority(folder)
        certificates.sign(folder, "one", user=name, addresses=(served,) if name == EXTENDER else ())
    return found
