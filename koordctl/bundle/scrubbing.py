"""Take secrets out of objects and texts before they are written into a bundle. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

REMOVED: Final = "REMOVED"
_DROPPED_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
_SECRET: Final = re.compile(r"token|passw(?:or)?d|secret|api-?key|credential|authorization|private-?key", re.IGNORECASE)
_PATTERNS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]{1,40}-----.*?(?:-----END [A-Z ]{1,40}-----|\Z)", re.DOTALL), REMOVED),
    (re.compile(r"(?<![\w.-])eyJ[\w-]+\.[\w-]+\.[\w-]*"), REMOVED),  # JSON web tokens, as service accounts have
    (re.compile(r"(?i)\b(bearer|basic|token) {1,5}[\w.~+/=-]{8,}"), rf"\1 {REMOVED}"),
    (re.compile(r"""(\w://)[^\s@"']{1,300}@"""), rf"\1{REMOVED}@"),
    (
        re.compile(
            rf"""((?:{_SECRET.pattern})[\w.-]{{0,40}}["']?\s{{0,5}}[:=]\s{{0,5}})("[^"\n]*"|'[^'\n]*'|[^\s,;&}}]+)""",
            re.IGNORECASE,
        ),
        rf"\1{REMOVED}",
    ),
)
"""What resembles a secret in a text, each found in linear time: tenants write logs. The name of a file of a secret is
taken out as well, which is no loss."""


def text(content: str) -> str:
    """Return a text without what resembles a secret."""
    for pattern, replacement in _PATTERNS:
        content = pattern.sub(replacement, content)
    return content


def item(content: Any) -> Any:
    """Return an object of the cluster without values of environment variables, and its texts without secrets."""
    if isinstance(content, Mapping):
        return {key: _field(key, value) for key, value in content.items() if key != "managedFields"}
    if isinstance(content, list):
        return [item(element) for element in content]
    return text(content) if isinstance(content, str) else content


def _field(key: str, value: Any) -> Any:
    if key == "env" and isinstance(value, list):
        return [_variable(variable) for variable in value]
    if key == "annotations" and isinstance(value, Mapping):
        value = {name: content for name, content in value.items() if name not in _DROPPED_ANNOTATIONS}
    if isinstance(value, str) and _SECRET.search(key) and not key.endswith("Name"):
        return REMOVED
    return item(value)


def _variable(variable: Any) -> Any:
    """Keep the name of a variable, and where its value is from; a plain value may be a secret."""
    if not isinstance(variable, Mapping):
        return REMOVED
    return {key: REMOVED if key == "value" else item(value) for key, value in variable.items()}
