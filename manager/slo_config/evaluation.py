"""Evaluate a state of the ConfigMap: the configuration in force from now on, and the problems to report. Pure.

An absent ConfigMap, and one without the key, mean the defaults. An invalid document changes nothing.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from api_types import names
from api_types.colocation import document as colocation_document
from api_types.colocation import problem
from api_types.colocation.problem import Effect, Problem
from manager.slo_config import strategy


class State(enum.StrEnum):
    """State of the ConfigMap."""

    APPLIED = "applied"
    KEY_ABSENT = "key-absent"
    CONFIG_MAP_ABSENT = "configmap-absent"
    REFUSED = "refused"


@dataclass(frozen=True)
class ConfigOutcome:
    """Result of one state of the ConfigMap."""

    state: State
    configuration: strategy.Configuration | None
    """Configuration in force from now on; None where no document was ever valid."""
    changed: bool
    """Whether it differs from the configuration in force before."""
    text: str | None
    """Text of the document; None where there is none."""
    problems: tuple[Problem, ...] = ()
    unused: tuple[str, ...] = ()


def document_text(data: Mapping[str, str] | None) -> str | None:
    """Return the document in a ConfigMap's data; None where the key is absent or empty."""
    return (data or {}).get(names.COLOCATION_CONFIG_KEY) or None


def restore(last_good: Mapping[str, str] | None) -> strategy.Configuration | None:
    """Restore the configuration that an earlier leader stored, from its ConfigMap's data; None where it stored none."""
    if names.COLOCATION_CONFIG_KEY not in (last_good or {}):
        return None
    return evaluate(None, last_good, exists=True).configuration


def evaluate(
    in_force: strategy.Configuration | None, config_map: Mapping[str, str] | None, *, exists: bool
) -> ConfigOutcome:
    """Evaluate the ConfigMap's data against the configuration in force; `exists` is False where it is absent."""
    text = document_text(config_map) if exists else None
    reading = colocation_document.read_config(text)
    if reading.config is None:
        return ConfigOutcome(State.REFUSED, in_force, False, text, reading.problems)
    configured = strategy.configuration(reading.config, reading.problems)
    with_text = State.KEY_ABSENT if text is None else State.APPLIED
    state = with_text if exists else State.CONFIG_MAP_ABSENT
    problems = reading.problems if text or not exists else tuple(_misspelled_keys(config_map or {}))
    return ConfigOutcome(state, configured, configured != in_force, text, problems, reading.unused)


def _misspelled_keys(data: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for a key that resembles the key of the document."""
    for key in difflib.get_close_matches(names.COLOCATION_CONFIG_KEY, [key for key in data if data[key]], n=1):
        yield Problem((), problem.quoted(key), f"the key {names.COLOCATION_CONFIG_KEY}", Effect.ADVICE)
