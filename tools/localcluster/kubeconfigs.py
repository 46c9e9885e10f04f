"""kubeconfig files with embedded certificates."""

from __future__ import annotations

import json
from pathlib import Path

from tools.localcluster import certificates


def write(file: Path, *, server: str, certificates_folder: Path, name: str) -> None:
    """Write the kubeconfig of the client certificate NAME, readable by its owner only. JSON, which is YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "koord-suite-local",
        "contexts": [{"name": "koord-suite-local", "context": {"cluster": "koord-suite-local", "user": name}}],
        "clusters": [
            {
                "name": "koord-suite-local",
                "cluster": {
                    "server": server,
                    "certificate-authority-data": certificates.embedded(certificates_folder / "ca.crt"),
                },
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": certificates.embedded(certificates_folder / f"{name}.crt"),
                    "client-key-data": certificates.embedded(certificates_folder / f"{name}.key"),
                },
            }
        ],
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(document, indent=2))
