"""Command `koordctl config render`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Final

from click import Choice, Option

from api_types.colocation import presets
from api_types.kubernetes import yaml_text
from koordctl.cli import flags
from koordctl.cli.answer import FINE
from koordctl.configuration import document

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
    rendered = document.config_map(document.preset_document(options.preset), options.namespace)
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
