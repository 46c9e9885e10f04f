"""A credential program of a kubeconfig."""

from __future__ import annotations

import json
from pathlib import Path

from apiserver_client import connection


def printing(folder: Path, **status: str) -> connection.ExecCommand:
    """Write the program, also in place of an earlier one, and return its command; it prints this status."""
    path = folder / "login"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'status': status})}\nEND\n")
    path.chmod(0o755)
    return connection.ExecCommand("client.authentication.k8s.io/v1", (str(path),))
