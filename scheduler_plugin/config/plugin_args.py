"""Decode, complete and validate plugin arguments, the `pluginConfig` of a profile; problems name their paths."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import pydantic

from api_types.colocation import problem
from api_types.colocation.problem import KeyPath, Problem
from scheduler_plugin.config import plugin_selection
from scheduler_plugin.plugins.registry import RegistryEntry

_SECRET_WORDS: Final = ("token", "tokn", "key", "secret", "password")
"""Parts of the keys whose values are never shown, misspelt ones included."""
_API_GROUP: Final = "kubescheduler.config.k8s.io/"


def given(entries: Any, at: KeyPath, problems: list[Problem], *, with_others: bool) -> dict[str, tuple[KeyPath, Any]]:
    """Return the arguments of each plugin in the list at path `at`, with their own path.

    `with_others`: the list may name kube-scheduler's own plugins too, which are ignored.
    """
    entries = [] if entries is None else entries
    if not isinstance(entries, list):
        problems.append(problem.problem(at, entries, "a list of objects with name and args"))
        return {}
    result: dict[str, tuple[KeyPath, Any]] = {}
    for index, entry in enumerate(entries):
        path: KeyPath = (*at, index)
        if not isinstance(entry, dict) or not entry.keys() <= {"name", "args"}:
            problems.append(problem.problem(path, entry, "an object with name and args"))
            continue
        try:
            name = plugin_selection.own_name(entry.get("name"), with_others=with_others)
        except ValueError as error:
            problems.append(problem.problem((*path, "name"), entry.get("name"), str(error)))
            continue
        if name in result:
            problems.append(problem.problem((*path, "name"), entry["name"], "each plugin at most once"))
        elif name is not None:
            args_path = (*path, "args")
            result[name] = (args_path, _without_type(entry.get("args"), entry["name"], args_path, problems))
    return result


def _without_type(args: Any, spelling: str, path: KeyPath, problems: list[Problem]) -> Any:
    """Return the arguments without apiVersion and kind, which kube-scheduler's own arguments may have."""
    if args is None:
        return {}
    if not isinstance(args, dict):
        return args
    version, kind = args.get("apiVersion"), args.get("kind")
    if version is not None and not str(version).startswith(_API_GROUP):
        problems.append(problem.problem((*path, "apiVersion"), version, f"{_API_GROUP}v1, or nothing"))
    if kind is not None and kind != f"{spelling}Args":
        problems.append(problem.problem((*path, "kind"), kind, f"{spelling}Args, or nothing"))
    return {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}


def completed(entry: RegistryEntry, args: Any, path: KeyPath, problems: list[Problem]) -> pydantic.BaseModel | None:
    """Decode, complete and validate arguments; append to `problems`. Return None if they cannot be decoded."""
    try:
        effective = entry.args.model_validate(args).with_defaults()
    except pydantic.ValidationError as error:
        schema = _schema(entry.args)
        problems += [_decoding_problem(schema, path, dict(item)) for item in error.errors()]
        broken = {item["loc"][0] for item in error.errors() if item["loc"]}
        if isinstance(args, dict) and broken.intersection(args):  # report the problems of the other keys too
            completed(entry, {key: value for key, value in args.items() if key not in broken}, path, problems)
        return None
    problems += [
        Problem((*path, *finding.path), finding.actual, finding.expected, finding.effect)
        for finding in effective.problems()
    ]
    return effective


@functools.cache
def _schema(args: type[pydantic.BaseModel]) -> Mapping[str, Any]:
    return args.model_json_schema(by_alias=True)


def _decoding_problem(schema: Mapping[str, Any], path: KeyPath, item: Mapping[str, Any]) -> Problem:
    location: KeyPath = item["loc"]
    value = _without_secrets(item["input"], location[-1] if location else "")
    if item["type"] == "extra_forbidden":
        keys = problem.keys_at(schema, location[:-1])
        return problem.problem((*path, *location), value, f"one of the keys {', '.join(keys) or '(none)'}")
    if item["type"] == "value_error":
        return problem.problem((*path, *location), value, str(item["ctx"]["error"]).rpartition("want ")[2])
    return problem.problem((*path, *location), value, problem.wanted_at(schema, location))


def _without_secrets(value: Any, key: object) -> Any:
    """Replace what may be a secret by a text: problems are logged."""
    if value is not None and any(word in str(key).lower() for word in _SECRET_WORDS):
        return "(not shown)"
    if isinstance(value, dict):
        return {name: _without_secrets(inner, name) for name, inner in value.items()}
    return [_without_secrets(inner, key) for inner in value] if isinstance(value, list) else value
