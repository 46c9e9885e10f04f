"""Command `koordctl config render`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any, Final

from click import Choice, Option

from api_types import names
from api_types.colocation import presets
from api_types.kubernetes import yaml_text
from koordctl.cli import flags
from koordctl.cli.answer import FINE

PARAMETERS: Final = (
    Option(
        ["--preset"],
        type=Choice(tuple(presets.PRESETS)),
        required=True,
        help="named set of the keys that determine risk",
    ),
    flags.NAMESPACE,
    Option(["-o", "--output"], type=Choice(("yaml", "json", "name")), default="yaml", help="format"),
)


def run(options: Namespace) -> int:
    """Print the ConfigMap, for kubectl apply; return the exit code."""
    rendered = config_map(preset_document(options.preset), options.namespace)
    if options.output == "json":
        sys.stdout.write(json.dumps(rendered, indent=2) + "\n")
    elif options.output == "name":
        sys.stdout.write(f"configmap/{rendered['metadata']['name']}\n")
    else:
        expected = presets.EXPECTATIONS[options.preset]
        sys.stdout.writelines(f"# {line}\n" for line in (expected.mid, expected.risk))
        sys.stdout.write(
            f"# It replaces the present document; koordctl config diff --preset {options.preset} has the effect.\n"
        )
        sys.stdout.write(yaml_text.dump(rendered))
    return FINE


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
