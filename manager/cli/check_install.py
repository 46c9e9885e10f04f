"""`python -m manager check-install`: another name of `koordctl check`, which the image of the manager has.

koordctl is loaded here and nowhere else: no other command of the manager pays for it.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Mapping
from typing import Any, Final

import pydantic

from api_types import names
from component_base import settings
from manager.cli import start

ENV_PREFIX: Final = "CHECK_INSTALL"


class CheckInstallSettings(settings.Settings):
    """Settings of the check, validated once at start, frozen."""

    namespace: str = pydantic.Field(names.NAMESPACE, min_length=1, max_length=63)
    """Namespace of the installation."""
    agent: str = "koordlet"
    """DaemonSet of the agents; empty where none is installed."""
    scheduler: str = "koord-scheduler"
    """Deployment of the scheduler; empty where none is installed."""
    wait_seconds: float = pydantic.Field(120.0, ge=0, le=3600)
    """How long to repeat checks that fail."""
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""


def main(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Run the checks; return the exit code of `koordctl check`."""
    if (loaded := start.load(CheckInstallSettings, arguments, environ, ENV_PREFIX)) is None:
        return start.WRONG_SETTINGS
    koordctl = importlib.import_module("koordctl.__main__")
    return int(koordctl.main(words(loaded[0])))


def words(chosen: CheckInstallSettings) -> list[str]:
    """Return the words after `koordctl`."""
    parts = {"agent": chosen.agent, "manager": "yes", "scheduler": chosen.scheduler}
    required = ",".join(part for part, is_installed in parts.items() if is_installed)
    found = ["check", f"--namespace={chosen.namespace}", f"--wait={chosen.wait_seconds:g}s", f"--require={required}"]
    return [*found, *([f"--kubeconfig={chosen.kubeconfig}"] if chosen.kubeconfig else [])]


def add_arguments(parser: Any) -> None:
    """Add the flags of the settings."""
    settings.add_arguments(parser, CheckInstallSettings, ENV_PREFIX)
