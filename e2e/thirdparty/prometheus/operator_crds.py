"""The CustomResourceDefinitions of the Prometheus operator, from its Go module, pinned in `go/` by version and hash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

_GO = Path(__file__).parent / "go"
_MODULE = "github.com/prometheus-operator/prometheus-operator"
_FOLDER = "example/prometheus-operator-crd"


def definition(plural: str) -> dict[str, Any]:
    """Return the definition of a resource, such as `podmonitors`. Raises ClusterProblem."""
    if shutil.which("go") is None:
        raise ClusterProblem(f"go: no such program on PATH; it downloads {_MODULE}")
    found = json.loads(commands.download(["go", "mod", "download", "-json", _MODULE], folder=_GO))
    file = Path(found["Dir"]) / _FOLDER / f"monitoring.coreos.com_{plural}.yaml"
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    return document
