"""Build the programs that a release needs beside helm, each from the Go module that pins it.

A module for each, because cosign, oras and the registry want different versions of the same modules.
"""

from __future__ import annotations

from pathlib import Path

from tools.localcluster import go_binaries

MODULES = Path(__file__).parent / "go"
PACKAGES = {
    "cosign": "github.com/sigstore/cosign/v3/cmd/cosign",
    "oras": "oras.land/oras/cmd/oras",
    "registry": "github.com/distribution/distribution/v3/cmd/registry",
}


def program(name: str) -> Path:
    """Return the path of cosign, oras or registry (distribution); the first build of each takes minutes."""
    return go_binaries.program_of(PACKAGES[name], MODULES / name, f"release-{name}")
