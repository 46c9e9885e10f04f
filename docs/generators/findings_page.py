"""Page docs/operations/findings.md: every code that an operator may see, from the one list of findings."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Final

from docs.generators import alerts_page, markdown
from fleet.finding_kinds import KINDS, Category, FindingKind

_INTRODUCTION: Final = """
Every code of `koordctl status` and `koordctl check`, of the status annotation of a node, of conditions of the agents,
of Events and of [alerts](alerts.md), with what to do. NODE is the name of a node, NAMESPACE that of the suite. An
*error* is a part that does not work, a *warning* one that works with less than it could, a *note* needs no action.
"""


def page() -> str:
    """Return the whole page."""
    parts = [markdown.head("Findings", "fleet/finding_kinds.py"), _INTRODUCTION]
    for category in Category:
        parts.append(f"\n## About {category}\n")
        parts += (_section(kind) for kind in _of(category))
    return "".join(parts)


def _of(category: Category) -> Iterable[FindingKind]:
    return (kind for kind in KINDS.values() if kind.category is category)


def _section(kind: FindingKind) -> str:
    path, hash_, anchor = kind.page.partition("#")
    link = posixpath.relpath(path, "operations") + hash_ + anchor
    fix = markdown.code(kind.fix) if kind.fix.startswith(("kubectl ", "koordctl ", "helm ")) else kind.fix
    what = f"*{kind.severity.value.title()}:* {kind.sentence}."
    alerts = [
        markdown.code(rule["alert"]) for rule in alerts_page.RULES if rule["annotations"].get("finding") == kind.code
    ]
    alert = f" Alert: {', '.join(alerts)}." if alerts else ""
    return f"\n### {kind.code}\n\n{what}\n\nWhat to do: {fix}. See [{path}]({link}).{alert}\n"
