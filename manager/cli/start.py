"""Start of a command: its settings and the connection to the cluster, or the problems on standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Final, TypeVar

from apiserver_client import connection, credentials, errors
from component_base import settings

WRONG_SETTINGS: Final = 2
"""Exit code."""


SettingsT = TypeVar("SettingsT", bound=settings.Settings)


def load(
    model: type[SettingsT], arguments: argparse.Namespace, environ: Mapping[str, str], env_prefix: str
) -> tuple[SettingsT, connection.Connection] | None:
    """Return settings and connection; None where one of them is wrong, after printing the problems."""
    try:
        chosen = settings.from_sources(model, arguments, environ, env_prefix)
        return chosen, credentials.find(getattr(chosen, "kubeconfig", "") or None)
    except settings.SettingsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
    except errors.NoCredentials as error:
        sys.stderr.write(f"{error}\n")
    return None
