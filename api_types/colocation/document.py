"""Parse `colocation-config`, and the strategy annotation of a node, into models; report every problem.

The rules of Koordinator's decoder apply, so that a document means the same to both: keys match in any case, the last of
two equal keys wins (with advice), null means "not set", a value of the wrong type fails the whole document. Stricter on
purpose: an unknown key or a value out of range fails its layer. No function here raises for malformed text.

An annotation is written by a node or by a client with the right to change nodes, so the work for it is bounded: its
length, the problems that are named, and the keys for which a similar one is searched.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pydantic

from api_types.colocation import advice as colocation_advice
from api_types.colocation import controller_config as slo
from api_types.colocation import problem as config_problem
from api_types.colocation import selector as node_selector
from api_types.colocation.problem import Effect, KeyPath, Problem
from api_types.kubernetes import pods
from api_types.wire_model import camel_case

_ENTRIES: Final = "nodeConfigs"
_SELECTOR: Final = "nodeSelector"
MOST_PROBLEMS: Final = 20
"""Problems that are named of one annotation; one more counts the rest."""
MOST_SUGGESTIONS: Final = 5
"""Unknown keys of one text for which a similar key is searched, at a millisecond each."""
_DEEPEST: Final = 64  # arbitrary; a document has seven levels, the others are for extensions
_INT64: Final = range(-(2**63), 2**63)


class _Problems(list[Problem]):
    """Problems of one text: all of them, or the first `most` and the number and worst effect of the others."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = most
        self._others = 0
        self._worst = Effect.ADVICE
        self._suggestions = MOST_SUGGESTIONS

    def add(self, path: KeyPath, value: Any, expected: str, effect: Effect) -> None:
        """Add a problem of a value as it was parsed."""
        if self._most is None or len(self) < self._most:
            self.append(Problem(path, config_problem.quoted(value), expected, effect))
        else:
            self._others += 1
            if effect is not Effect.ADVICE:
                self._worst = effect

    def similar(self, key: str, keys: Iterable[str]) -> list[str]:
        """Return the known key that is most similar to an unknown one; none where too many were searched."""
        self._suggestions -= 1
        return difflib.get_close_matches(key, keys, n=1) if self._suggestions >= 0 else []

    def with_rest(self) -> tuple[Problem, ...]:
        """Return the problems, and one more for those that are only counted."""
        if not self._others:
            return tuple(self)
        return (*self, Problem((), f"{self._others} more problems", "none", self._worst))


@dataclass(frozen=True)
class Reading:
    """Result of parsing. `config` is None where the document is refused; entries that are refused set nothing."""

    config: slo.ColocationConfig | None
    problems: tuple[Problem, ...] = ()
    unused: tuple[str, ...] = ()
    """Key paths that Koordinator knows and that have no effect here."""


def unused_text(unused: Iterable[str]) -> str:
    """Describe key paths that are accepted without effect."""
    return f"accepted without effect: {', '.join(unused)}"


def read_config(text: str | None) -> Reading:
    """Parse the document. An absent or blank text sets nothing."""
    if not text or not text.strip():
        return Reading(slo.ColocationConfig())
    problems = _Problems()
    document = _object(text, slo.ColocationConfig, problems)
    problems += _selector_faults(document)
    if any(problem.effect is Effect.DOCUMENT_REFUSED for problem in problems):
        return Reading(None, tuple(problems))
    config = slo.ColocationConfig.model_validate(_without_bad_entries(document, problems))
    refused = {problem.path[:2] for problem in problems if problem.effect is Effect.LAYER_IGNORED}
    problems += colocation_advice.parameter_advice(config)
    for advise in (colocation_advice.preset_advice, colocation_advice.selector_advice, colocation_advice.idle_advice):
        problems += (advice for advice in advise(config) if advice.path[:2] not in refused)
    problems += colocation_advice.overlap_advice(config)
    problems += colocation_advice.name_advice(config)
    return Reading(config, tuple(problems), tuple(_unused(config)))


def read_strategy(text: str) -> tuple[slo.ColocationStrategy | None, tuple[Problem, ...]]:
    """Parse the strategy annotation of a node; None where it is refused as a whole.

    The problems are `MOST_PROBLEMS` and a last one that counts the others; advice on values comes after them.
    """
    if pods.is_too_long(text):
        expected = f"at most {pods.MOST_ANNOTATION_BYTES}"
        actual = f"more than {pods.MOST_ANNOTATION_BYTES} bytes"
        return None, (Problem((), actual, expected, Effect.LAYER_IGNORED),)
    collected = _Problems(MOST_PROBLEMS)
    document = _object(text, slo.ColocationStrategy, collected)
    problems = collected.with_rest()
    if config_problem.refuses(problems):
        ignored = {Effect.DOCUMENT_REFUSED: Effect.LAYER_IGNORED}
        return None, tuple(
            dataclasses.replace(problem, effect=ignored.get(problem.effect, problem.effect)) for problem in problems
        )
    strategy = slo.ColocationStrategy.model_validate(document)
    return strategy, (*problems, *colocation_advice.strategy_advice(strategy))


def _object(text: str, model: type[pydantic.BaseModel], problems: _Problems) -> dict[str, Any]:
    """Return the JSON object of a text, with the keys of the model; add every problem of it."""
    try:
        raw = json.loads(text, object_pairs_hook=_last_wins, parse_constant=_no_constant, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        problems.add((), text, f"valid JSON: {error}", Effect.DOCUMENT_REFUSED)
        return {}
    if _is_too_deep(raw):
        problems.add((), text, f"JSON of at most {_DEEPEST} levels", Effect.DOCUMENT_REFUSED)
        return {}
    folded = _fold(raw, model, (), problems)
    _add_type_and_range_problems(folded, model, problems)
    return folded if isinstance(folded, dict) else {}


def _is_too_deep(value: Any) -> bool:
    """Return whether the nesting is deeper than any valid document; later code here and elsewhere is recursive."""
    level = [value]
    for _ in range(_DEEPEST):
        containers = [item for item in level if isinstance(item, (dict, list))]
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return any(isinstance(item, (dict, list)) for item in level)


class _JsonObject(dict[str, Any]):
    """A JSON object with the set of its repeated keys."""

    repeated: frozenset[str] = frozenset()


def _last_wins(pairs: list[tuple[str, Any]]) -> _JsonObject:
    result = _JsonObject()
    for key, value in pairs:
        result.pop(key, None)  # keys that differ in case alone keep the order of their last occurrence
        result[key] = value
    result.repeated = frozenset(key for key, count in Counter(key.lower() for key, _ in pairs).items() if count > 1)
    return result


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _integer(text: str) -> int | float:
    """Parse an integer; one beyond 64 bits becomes a float, which is refused where an integer is wanted."""
    value = float(text)
    return int(text) if abs(value) < 2**65 and int(text) in _INT64 else value


def _fold(value: Any, model: type[pydantic.BaseModel], path: KeyPath, problems: _Problems) -> Any:
    """Rename keys as in the model, drop nulls, resolve aliases, report and drop unknown keys."""
    if isinstance(value, list):
        return [_fold(item, model, (*path, position), problems) for position, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    fields = {camel_case(field): info for field, info in model.model_fields.items()}
    result: dict[str, Any] = {}
    for key, item in _resolve_aliases(_model_keys(value, fields, path, problems), fields, path, problems):
        nested = slo.nested_model(fields[key].annotation)
        result[key] = _fold(item, nested, (*path, key), problems) if nested else item
    return result


def _model_keys(value: dict[str, Any], fields: Iterable[str], path: KeyPath, problems: _Problems) -> dict[str, Any]:
    spellings = [*fields, *(alias for alias, key in slo.ALIASES.items() if key in fields)]
    by_lower_case = {key.lower(): key for key in spellings}
    result: dict[str, Any] = {}
    for key, item in value.items():
        field = by_lower_case.get(key.lower())
        if field is None:
            similar = problems.similar(key, spellings)
            expected = f"a known key; is {similar[0]} meant?" if similar else "a known key"
            problems.add((*path, key), item, expected, _effect_in(path))
        elif item is None:
            result.pop(field, None)
        else:
            result[field] = item
    for key in sorted(getattr(value, "repeated", ())):
        if field := by_lower_case.get(key):
            problems.add((*path, field), result.get(field), "the key once: the last one counts", Effect.ADVICE)
    return result


def _resolve_aliases(
    value: dict[str, Any], fields: Iterable[str], path: KeyPath, problems: _Problems
) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        meant = slo.ALIASES.get(key, key)
        if meant != key and value.get(meant, item) != item:
            expected = f"the same as {meant}, or one of the two alone"
            problems.add((*path, key), item, expected, _effect_in(path))
        if meant in fields:
            yield meant, item


def _effect_in(path: KeyPath) -> Effect:
    return Effect.LAYER_IGNORED if path[:1] == (_ENTRIES,) else Effect.DOCUMENT_REFUSED


@functools.cache
def _schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _add_type_and_range_problems(document: Any, model: type[pydantic.BaseModel], problems: _Problems) -> None:
    try:
        model.model_validate(document)
    except pydantic.ValidationError as error:
        for item in error.errors(include_url=False, include_context=False):
            _add_problem(item, model, problems)


def _add_problem(error: Any, model: type[pydantic.BaseModel], problems: _Problems) -> None:
    path: KeyPath = error["loc"]
    wrong_type = error["type"].endswith("_type")
    effect = Effect.DOCUMENT_REFUSED if wrong_type else _effect_in(path)
    custom = error["type"].startswith(("duration_", "predictor_"))  # custom errors, whose text names the wanted value
    expected = error["msg"].removeprefix("want ") if custom else config_problem.wanted_at(_schema(model), path)
    problems.add(path, error["input"], expected, effect)


def _selector_faults(document: dict[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each selector of the right types that is invalid."""
    entries = document.get(_ENTRIES)
    for position, entry in enumerate(entries if isinstance(entries, list) else ()):
        try:
            selector = node_selector.NodeSelector.model_validate(entry[_SELECTOR])
        except (pydantic.ValidationError, LookupError, TypeError):
            continue  # absent, or already reported
        if fault := node_selector.fault(selector):
            inner_path, value, expected = fault
            yield Problem(
                (_ENTRIES, position, _SELECTOR, inner_path),
                config_problem.quoted(value),
                expected,
                Effect.LAYER_IGNORED,
            )


def _without_bad_entries(document: dict[str, Any], problems: Iterable[Problem]) -> dict[str, Any]:
    """Reduce entries with a problem to name and selector; drop an invalid selector, which then selects nothing."""
    problems = [problem for problem in problems if problem.effect is not Effect.ADVICE]
    bad = {problem.path[1] for problem in problems if problem.path[:1] == (_ENTRIES,)}
    bad_selector = {problem.path[1] for problem in problems if problem.path[2:3] == (_SELECTOR,)}
    result = dict(document)
    if _ENTRIES in document:
        result[_ENTRIES] = [
            _shell(entry, position in bad_selector) if position in bad else entry
            for position, entry in enumerate(document[_ENTRIES])
        ]
    return result


def _shell(entry: dict[str, Any], drop_selector: bool) -> dict[str, Any]:
    keys = ("name",) if drop_selector else ("name", _SELECTOR)
    return {key: entry[key] for key in keys if key in entry}


def _unused(config: slo.ColocationConfig) -> Iterator[str]:
    yield from slo.unused_keys(config)
    for position, entry in enumerate(config.node_configs or ()):
        for key in slo.unused_keys(entry):
            yield config_problem.format_path((_ENTRIES, position, key))
