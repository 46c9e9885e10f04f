"""One state of the ConfigMap against the configuration in force: what holds from now on, and what to tell. Pure.

A ConfigMap that is not there, and one without the key, mean the defaults; a document that cannot be used changes
nothing. Source: design 3.2, koordinator-core 4.4.
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
    """Where the configuration in force comes from."""

    APPLIED = "applied"
    KEY_ABSENT = "key-absent"
    CONFIG_MAP_ABSENT = "configmap-absent"
    REFUSED = "refused"


@dataclass(frozen=True)
class Outcome:
    """What follows from one state of the ConfigMap."""

    state: State
    configuration: strategy.Configuration | None
    """In force from now on; None where nothing good was ever seen."""
    changed: bool
    """Whether it differs from what was in force."""
    text: str | None
    """The document's text; None where there is none."""
    problems: tuple[Problem, ...] = ()
    unused: tuple[str, ...] = ()


def document_text(data: Mapping[str, str] | None) -> str | None:
    """The document in a ConfigMap's data; None where the key is absent or empty."""
    return (data or {}).get(names.COLOCATION_CONFIG_KEY) or None


def restored(last_good: Mapping[str, str] | None) -> strategy.Configuration | None:
    """Configuration that an earlier manager kept, from its ConfigMap's data; None where it kept none."""
    if names.COLOCATION_CONFIG_KEY not in (last_good or {}):
        return None
    return synced(None, last_good, exists=True).configuration


def synced(in_force: strategy.Configuration | None, config_map: Mapping[str, str] | None, *, exists: bool) -> Outcome:
    """Judge the ConfigMap's data (`exists` False where there is no ConfigMap) against the configuration in force."""
    text = document_text(config_map) if exists else None
    reading = colocation_document.read_config(text)
    if reading.config is None:
        return Outcome(State.REFUSED, in_force, False, text, reading.problems)
    configured = strategy.configuration(reading.config, reading.problems)
    with_text = State.KEY_ABSENT if text is None else State.APPLIED
    state = with_text if exists else State.CONFIG_MAP_ABSENT
    problems = reading.problems if text or not exists else tuple(_misspelt(config_map or {}))
    return Outcome(state, configured, configured != in_force, text, problems, reading.unused)


def _misspelt(data: Mapping[str, str]) -> Iterator[Problem]:
    """A key of the ConfigMap that may be meant to be the document."""
    for key in difflib.get_close_matches(names.COLOCATION_CONFIG_KEY, [key for key in data if data[key]], n=1):
        yield Problem((), problem.quoted(key), f"the key {names.COLOCATION_CONFIG_KEY}", Effect.ADVICE)
