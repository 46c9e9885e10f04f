"""Evaluate a state of the ConfigMap: the configuration in force from now on, the problems, and a condition. Pure.

Only a valid document that sets a key changes the configuration. An absent ConfigMap, one without the key, and a blank
or invalid document change nothing: a mistake withdraws nothing, and `{"enable": false}` switches colocation off.

A ConfigMap has no status and its Events expire after an hour; the annotation with the condition is what
`kubectl describe` shows after that. Its text depends only on the document and the accepted state, never on the process,
so a restarted manager finds it up to date. It is YAML, because describe prints it line by line and cuts lines at 138
characters.
"""

from __future__ import annotations

import datetime as dt
import difflib
import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api_types import names
from api_types.colocation import document as colocation_document
from api_types.colocation import problem
from api_types.colocation.problem import Effect, Problem
from api_types.kubernetes import times, yaml_text
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
    """Return the document in a ConfigMap's data; None where the key is absent or blank."""
    text = (data or {}).get(names.COLOCATION_CONFIG_KEY) or ""
    return text if text.strip() else None


def restore(last_good: Mapping[str, str] | None) -> strategy.Configuration | None:
    """Restore the configuration that an earlier leader stored, from its ConfigMap's data; None where it stored none."""
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
    sets_nothing = not reading.config.model_fields_set and in_force not in (None, configured)
    if text is None or sets_nothing:
        state = State.KEY_ABSENT if exists else State.CONFIG_MAP_ABSENT
        return ConfigOutcome(state, in_force, False, text, tuple(_misspelled_keys(config_map or {})))
    return ConfigOutcome(State.APPLIED, configured, configured != in_force, text, reading.problems, reading.unused)


def _misspelled_keys(data: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for a key that resembles the key of the document."""
    others = [key for key in data if data[key] and key != names.COLOCATION_CONFIG_KEY]
    for key in difflib.get_close_matches(names.COLOCATION_CONFIG_KEY, others, n=1):
        yield Problem((), problem.quoted(key), f"the key {names.COLOCATION_CONFIG_KEY}", Effect.ADVICE)


REJECTED: Final = "ColocationConfigRejected"
ABSENT: Final = "ColocationConfigAbsent"
IGNORED: Final = "ColocationConfigIgnored"
ADVICE: Final = "ColocationConfigAdvice"
APPLIED: Final = "ColocationConfigApplied"
UNUSED: Final = "ColocationConfigUnused"

OFF: Final = f"""{names.COLOCATION_CONFIG_KEY}: '{{"enable": false}}' switches colocation off"""
REASONS: Final[Mapping[Effect, str]] = {
    Effect.DOCUMENT_REFUSED: REJECTED,
    Effect.LAYER_IGNORED: IGNORED,
    Effect.ADVICE: ADVICE,
}
"""Reason code of a problem, the same in Events and in the annotation."""

_MOST_PROBLEMS: Final = 10
_LONGEST_PROBLEM: Final = 300  # characters; all annotations of an object share 256 KiB
_BEGIN: Final = re.compile(
    r"type: Accepted\nstatus: '(?P<status>True|False)'\n"
    r"lastTransitionTime: '(?P<since>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)'\n",
    re.ASCII,
)
"""Begin of a text that the manager wrote."""


def summary(outcome: ConfigOutcome, *, kept_in: str) -> str:
    """Return the configuration in force in one line; `kept_in` names the ConfigMap of the last valid document."""
    if outcome.state is State.APPLIED:
        return f"the configuration is in force; {_gist(outcome)}"
    seen = {
        State.REFUSED: "refused",
        State.KEY_ABSENT: f"the key {names.COLOCATION_CONFIG_KEY} is absent or empty",
        State.CONFIG_MAP_ABSENT: "the ConfigMap is absent",
    }[outcome.state]
    if outcome.configuration is None:
        return f"{seen}, and there is no earlier one: nothing changes until samples are too old"
    return f"{seen}, the last good configuration stays in force (ConfigMap {kept_in}): {_gist(outcome)}"


def _gist(outcome: ConfigOutcome) -> str:
    configured = outcome.configuration
    if configured is None or not configured.cluster.enable:
        return "colocation is off (enable is not true)"
    if not configured.entries:
        return "colocation is on"
    count = len(configured.entries)
    return f"colocation is on, {count} nodeConfigs {'entry' if count == 1 else 'entries'}{_left_out(configured)}"


def _left_out(configured: strategy.Configuration) -> str:
    refused = {problem.path[1] for problem in configured.problems if problem.effect is Effect.LAYER_IGNORED}
    return f", {len(refused)} of them ignored" if refused else ""


def reason(outcome: ConfigOutcome) -> str:
    """Return the reason code of the document: that of its worst problem, where one has an effect."""
    if outcome.state is not State.APPLIED:
        return REJECTED if outcome.state is State.REFUSED else ABSENT
    return IGNORED if any(problem.effect is Effect.LAYER_IGNORED for problem in outcome.problems) else APPLIED


def annotation(outcome: ConfigOutcome, before: str | None, now: dt.datetime, *, kept_in: str) -> str | None:
    """Return the new text of the annotation; None where the text `before` is up to date.

    `lastTransitionTime` is kept while `status` is the same, as in every condition.
    """
    status = str(outcome.state is State.APPLIED)
    since = _since(before or "", status) or times.format_rfc3339(now)
    condition: dict[str, Any] = {
        "type": "Accepted",
        "status": status,
        "lastTransitionTime": since,
        "reason": reason(outcome),
        "message": summary(outcome, kept_in=kept_in),
    }
    refused = Effect.DOCUMENT_REFUSED  # which the condition as a whole states
    if problems := [
        _cut(str(problem) if problem.effect is refused else problem.with_effect())
        for problem in outcome.problems[:_MOST_PROBLEMS]
    ]:
        condition["problems"] = problems
    if len(outcome.problems) > _MOST_PROBLEMS:
        condition["furtherProblems"] = len(outcome.problems) - _MOST_PROBLEMS
    if outcome.unused:
        condition["unused"] = _cut(colocation_document.unused_text(outcome.unused))
    text = yaml_text.dump(condition)
    return None if text == before else text


def _since(text: str, status: str) -> str | None:
    """Return the time of the transition to this status; None where the text does not begin with both.

    The text is not parsed as YAML: any client with the right to change the ConfigMap writes it, and a few hundred bytes
    of YAML can take minutes and gigabytes.
    """
    written = _BEGIN.match(text)
    if not written or written["status"] != status or times.parse_rfc3339_or_none(written["since"]) is None:
        return None
    return written["since"]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_PROBLEM else text[: _LONGEST_PROBLEM - 1] + "…"
