"""Read the version of the project and its release notes.

The only place of the version is `appVersion` in the Chart.yaml of the chart. pyproject.toml reads it from there, and it
is the default tag of the images.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.localcluster.errors import ClusterProblem

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "koord-suite"
CHANGELOG = REPOSITORY / "CHANGELOG.md"

_APP_VERSION = re.compile(r'^appVersion: "?(?P<version>\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)"?$', re.MULTILINE)


class ReleaseProblem(ClusterProblem):
    """Something prevents the release. The message names it and the fix."""


def app_version(chart_yaml: str) -> str:
    """Return `appVersion` of a Chart.yaml. Raises ReleaseProblem if it is not a semantic version."""
    found = _APP_VERSION.search(chart_yaml)
    if found is None:
        raise ReleaseProblem("Chart.yaml: no line `appVersion: X.Y.Z`; write the version of the release there")
    return found["version"]


def current() -> str:
    """Return the version of this checkout. Raises ReleaseProblem."""
    return app_version((CHART / "Chart.yaml").read_text(encoding="utf-8"))


def check_tag(tag: str, version: str) -> None:
    """Raise ReleaseProblem unless the tag is `v` and the version."""
    if tag != f"v{version}":
        raise ReleaseProblem(f"tag {tag!r}: want v{version}, the appVersion of Chart.yaml; correct one of them")


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version in CHANGELOG.md, without its heading. Raises ReleaseProblem if there is none."""
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |^\[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ReleaseProblem(f"CHANGELOG.md: no section `## [{version}] - DATE`; rename Unreleased to it")
    return f"{found[1].strip()}\n"
