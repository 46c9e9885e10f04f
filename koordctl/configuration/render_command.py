"""Command `koordctl config render`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from api_types import names
from api_types.colocation import presets
from api_types.kubernetes import yaml_text
from koordctl.cli.answer import FINE
from koordctl.configuration import document


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("--preset", choices=tuple(presets.PRESETS), required=True, help="named set of the keys that determine risk")
    add("-n", "--namespace", default=names.NAMESPACE, help=f"namespace of the suite (default: {names.NAMESPACE})")
    add("-o", "--output", choices=("yaml", "json", "name"), default="yaml", help="format (default: yaml)")


def run(options: Namespace) -> int:
    """Print the ConfigMap, for kubectl apply; return the exit code."""
    rendered = document.config_map(document.of_preset(options.preset), options.namespace)
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
