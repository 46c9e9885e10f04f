"""The policy file -> the policies that run, in the shape of KubeSchedulerConfiguration's `pluginConfig`.

    pluginConfig:
    - name: LoadAwareScheduling
      args:
        usageThresholds: {cpu: 65, memory: 95}

A policy that is not named runs with its defaults. Every problem of the file is found at once, each with key path,
value seen and value wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pydantic
import yaml

from api_types import config_problem
from api_types.config_problem import KeyPath, Problem
from scheduler_plugin.plugins import catalog
from scheduler_plugin.plugins.catalog import CatalogEntry

_TOP_LEVEL: Final = ("apiVersion", "kind", "pluginConfig")


class InvalidConfiguration(Exception):
    """The file cannot be used; `problems` holds one line for each thing that is wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Configuration:
    """Completed, judged arguments of every policy that runs, by name, in the catalog's order."""

    args: Mapping[str, pydantic.BaseModel]

    def document(self) -> dict[str, Any]:
        """The effective configuration, in the shape of the file."""
        return {
            "pluginConfig": [
                {"name": name, "args": args.model_dump(mode="json", by_alias=True, exclude_none=True)}
                for name, args in self.args.items()
            ]
        }


def load(file_name: str | None) -> Configuration:
    """Read a policy file; None is an empty one. Raises InvalidConfiguration."""
    if file_name is None:
        return parse({})
    try:
        document = yaml.safe_load(Path(file_name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration([f"cannot read the configuration {file_name}: {error}"]) from error
    except yaml.YAMLError as error:
        raise InvalidConfiguration([f"the configuration {file_name} is not YAML: {error}"]) from error
    try:
        return parse({} if document is None else document)
    except InvalidConfiguration as error:
        raise InvalidConfiguration([f"{file_name}: {problem}" for problem in error.problems]) from error


def parse(document: Any) -> Configuration:
    """Judge and complete a document. Raises InvalidConfiguration."""
    problems: list[Problem] = []
    given = _given_args(document, problems)
    effective = {}
    for name, entry in catalog.POLICIES.items():
        path, args = given.get(name, ((), {}))
        completed = _completed(entry, args, path, problems)
        if completed is not None:
            effective[name] = completed
    if problems:
        raise InvalidConfiguration([str(problem) for problem in problems])
    return Configuration(effective)


def _given_args(document: Any, problems: list[Problem]) -> dict[str, tuple[KeyPath, Any]]:
    """Arguments by policy name, with the path they stand at."""
    if not isinstance(document, dict):
        problems.append(_problem((), document, "an object with the key pluginConfig"))
        return {}
    problems += [
        _problem((key,), value, f"one of the keys {', '.join(_TOP_LEVEL)}")
        for key, value in document.items()
        if key not in _TOP_LEVEL
    ]
    entries = document.get("pluginConfig")
    entries = [] if entries is None else entries
    if not isinstance(entries, list):
        problems.append(_problem(("pluginConfig",), entries, "a list of objects with name and args"))
        return {}
    given: dict[str, tuple[KeyPath, Any]] = {}
    for index, entry in enumerate(entries):
        path: KeyPath = ("pluginConfig", index)
        if not isinstance(entry, dict) or not entry.keys() <= {"name", "args"}:
            problems.append(_problem(path, entry, "an object with name and args"))
        elif entry.get("name") not in list(catalog.POLICIES):
            known = ", ".join(catalog.POLICIES)
            problems.append(_problem((*path, "name"), entry.get("name"), f"one of {known}"))
        elif entry["name"] in given:
            problems.append(_problem((*path, "name"), entry["name"], "each policy at most once"))
        else:
            given[entry["name"]] = ((*path, "args"), {} if entry.get("args") is None else entry["args"])
    return given


def _completed(entry: CatalogEntry, args: Any, path: KeyPath, problems: list[Problem]) -> pydantic.BaseModel | None:
    try:
        completed = entry.complete(entry.args.model_validate(args))
    except pydantic.ValidationError as error:
        schema = entry.args.model_json_schema(by_alias=True)
        problems += [_decoding_problem(schema, path, dict(item)) for item in error.errors()]
        broken = {item["loc"][0] for item in error.errors() if item["loc"]}
        if broken:  # what can be read is judged too
            _completed(entry, {key: value for key, value in args.items() if key not in broken}, path, problems)
        return None
    judged = entry.problems(completed)
    problems += [Problem((*path, *own.path), own.seen, own.wanted, own.effect) for own in judged]
    return completed if isinstance(completed, pydantic.BaseModel) else None


def _decoding_problem(schema: Mapping[str, Any], path: KeyPath, item: Mapping[str, Any]) -> Problem:
    own: KeyPath = item["loc"]
    if item["type"] == "extra_forbidden":
        return _problem(
            (*path, *own), item["input"], f"one of the keys {', '.join(schema.get('properties', {})) or '(none)'}"
        )
    if item["type"] == "value_error":
        return _problem((*path, *own), item["input"], str(item["ctx"]["error"]).rpartition("want ")[2])
    return _problem((*path, *own), item["input"], config_problem.wanted_at(schema, own))


def _problem(path: KeyPath, seen: Any, wanted: str) -> Problem:
    return Problem(path, config_problem.quoted(seen), wanted, config_problem.Effect.DOCUMENT_REFUSED)
