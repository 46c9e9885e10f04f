"""The documents that the commands make: the one of a preset, and its ConfigMap. Pure."""

from __future__ import annotations

import json
from typing import Any

from api_types import names


def preset_document(preset: str) -> str:
    """Return the document that switches colocation on with a preset."""
    return json.dumps({"enable": True, "preset": preset})


def config_map(document: str, namespace: str) -> dict[str, Any]:
    """Return the ConfigMap of a document."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.SLO_CONTROLLER_CONFIG, "namespace": namespace},
        "data": {names.COLOCATION_CONFIG_KEY: document},
    }
