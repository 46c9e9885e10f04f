"""Objects that the chart renders, without a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.support.installation import CHART, RELEASE
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster import go_binaries

_REGISTRY = {"global": {"imageRegistry": "registry.example"}}


def rendered(binaries: Path, values: Mapping[str, Any], *templates: str) -> list[dict[str, Any]]:
    """Return the objects of some templates, such as `scheduler/config`, for the Kubernetes version of the programs."""
    words = [str(binaries / "helm"), "template", RELEASE, str(CHART), "--namespace", SUITE_NAMESPACE, "--values=-"]
    words += [f"--show-only=templates/{template}.yaml" for template in templates]
    words.append(f"--kube-version={go_binaries.version()}")
    done = subprocess.run(words, input=json.dumps({**_REGISTRY, **values}), capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]
