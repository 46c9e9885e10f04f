"""Read a KubeSchedulerConfiguration profile: `plugins` selects them and their weights, `pluginConfig` has arguments.

    plugins:
      filter: {enabled: [{name: LoadAwareScheduling}], disabled: [{name: MidGuard}]}
      score: {enabled: [{name: LoadAwareScheduling, weight: 1}, {name: TargetLoadPacking, weight: 2}]}

A plugin that is enabled at any point runs exactly where it is enabled. Any other plugin runs by the defaults of the
registry, unless it is disabled there. `multiPoint` means every point; an absent weight, or 0, is 1, as in
kube-scheduler. Arguments are decoded, completed and validated; problems name their paths.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pydantic

from api_types.colocation.problem import KeyPath, Problem, keys_at, wanted_at
from scheduler_plugin.config.kube_scheduler import problem
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.registry import ExtensionPoint, RegistryEntry

_EVERYWHERE: Final = "multiPoint"
_ALL: Final = "*"
_WITHOUT_EFFECT: Final = (
    *("preEnqueue", "queueSort", "preFilter", "postFilter", "preScore", "reserve", "permit", "preBind", "bind"),
    "postBind",
)
_LARGEST_WEIGHT: Final = 2**31 - 1


class Selection(NamedTuple):
    """Plugins that run; names in the registry's order."""

    filters: tuple[str, ...]
    score_weights: Mapping[str, int]


class _PluginEntry(NamedTuple):
    path: KeyPath
    point: str
    name: str
    weight: int


def select(plugins: Any, path: KeyPath, problems: list[Problem], *, with_others: bool) -> Selection:
    """Select plugins by the value `plugins` at `path`; `with_others`: it may name kube-scheduler's own plugins too."""
    reader = _Reader(problems, with_others=with_others)
    enabled = list(reader.entries(plugins, path, "enabled"))
    disabled = {(entry.point, entry.name) for entry in reader.entries(plugins, path, "disabled")}
    weights: dict[ExtensionPoint, dict[str, int]] = {point: {} for point in ExtensionPoint}
    for name, entry in registry.PLUGINS.items():
        entries = [one for one in enabled if one.name == name]
        for point in sorted(entry.points):
            named = [one for one in entries if one.point == point]
            spread = [one for one in entries if one.point == _EVERYWHERE and (point, name) not in disabled]
            off = not disabled.isdisjoint({(at, it) for at in (point, _EVERYWHERE) for it in (name, _ALL)})
            if named or spread or (entry.runs_by_default and not entries and not off):
                weights[point][name] = next((one.weight for one in (*named, *spread)), 1)
    for at in enabled:
        if (
            at.point in set(ExtensionPoint)
            and at.name in registry.PLUGINS
            and at.point not in registry.PLUGINS[at.name].points
        ):
            able = [name for name, entry in registry.PLUGINS.items() if at.point in entry.points]
            problems.append(problem((*at.path, "name"), at.name, f"a {at.point} plugin: {', '.join(able)}"))
    return Selection(tuple(weights[ExtensionPoint.FILTER]), weights[ExtensionPoint.SCORE])


def own_name(spelling: Any, *, with_others: bool) -> str | None:
    """Return the registry's name of a plugin; None for one of kube-scheduler's. Raises ValueError with the wanted name.

    With `with_others`, a name that is similar to one of the registry counts as a misspelling.
    """
    if isinstance(spelling, str) and spelling in registry.SPELLINGS:
        return registry.SPELLINGS[spelling]
    if not isinstance(spelling, str) or not spelling or not with_others:
        raise ValueError(f"one of {', '.join(registry.SPELLINGS)}")
    nearly = difflib.get_close_matches(spelling, registry.SPELLINGS, n=1, cutoff=0.85)
    if nearly:
        raise ValueError(nearly[0])
    return None


class _Reader:
    """Reader of the lists in `plugins`, which collects their problems."""

    def __init__(self, problems: list[Problem], *, with_others: bool) -> None:
        self._problems = problems
        self._with_others = with_others
        self._reported: set[KeyPath] = set()

    def entries(self, plugins: Any, path: KeyPath, key: str) -> Iterator[_PluginEntry]:
        """Return the registered plugins in the lists under `key`, enabled or disabled."""
        points = (_EVERYWHERE, *ExtensionPoint, *_WITHOUT_EFFECT)
        for point, lists in self._mapping(plugins, path, points).items():
            below = (*path, point)
            items = self._mapping(lists, below, ("enabled", "disabled")).get(key)
            items = [] if items is None else items
            if not isinstance(items, list):
                self._report((*below, key), items, "a list of objects with name")
                continue
            for index, item in enumerate(items):
                yield from self._entry(item, (*below, key, index), point, key)

    def _entry(self, item: Any, path: KeyPath, point: str, key: str) -> Iterator[_PluginEntry]:
        item = self._mapping({} if item is None else item, path, ("name", "weight"))
        weight = item.get("weight") or 1
        if type(weight) is not int or not 1 <= weight <= _LARGEST_WEIGHT:
            self._report((*path, "weight"), weight, "an integer of 1 or more")
            return
        if item.get("name") == _ALL and key == "disabled":
            yield _PluginEntry(path, point, _ALL, weight)
            return
        try:
            name = own_name(item.get("name"), with_others=self._with_others)
        except ValueError as error:
            self._report((*path, "name"), item.get("name"), str(error))
            return
        if name is not None:
            yield _PluginEntry(path, point, name, weight)

    def _mapping(self, value: Any, path: KeyPath, keys: tuple[str, ...]) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._report(path, value, f"an object with the keys {', '.join(keys)}")
            return {}
        for key in value.keys() - set(keys):
            self._report((*path, key), value[key], f"one of the keys {', '.join(keys)}")
        return {key: value[key] for key in keys if key in value}

    def _report(self, path: KeyPath, value: Any, accepted: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            self._problems.append(problem(path, value, accepted))


_API_GROUP: Final = "kubescheduler.config.k8s.io/"


def plugin_args(
    entries: Any, at: KeyPath, problems: list[Problem], *, with_others: bool
) -> dict[str, tuple[KeyPath, Any]]:
    """Return the arguments of each plugin in the list at path `at`, with their own path.

    `with_others`: the list may name kube-scheduler's own plugins too, which are ignored.
    """
    entries = [] if entries is None else entries
    if not isinstance(entries, list):
        problems.append(problem(at, entries, "a list of objects with name and args"))
        return {}
    result: dict[str, tuple[KeyPath, Any]] = {}
    for index, entry in enumerate(entries):
        path: KeyPath = (*at, index)
        if not isinstance(entry, dict) or not entry.keys() <= {"name", "args"}:
            problems.append(problem(path, entry, "an object with name and args"))
            continue
        try:
            name = own_name(entry.get("name"), with_others=with_others)
        except ValueError as error:
            problems.append(problem((*path, "name"), entry.get("name"), str(error)))
            continue
        if name in result:
            problems.append(problem((*path, "name"), entry["name"], "each plugin at most once"))
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
        problems.append(problem((*path, "apiVersion"), version, f"{_API_GROUP}v1, or nothing"))
    if kind is not None and kind != f"{spelling}Args":
        problems.append(problem((*path, "kind"), kind, f"{spelling}Args, or nothing"))
    return {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}


def completed_args(
    entry: RegistryEntry, args: Any, path: KeyPath, problems: list[Problem]
) -> pydantic.BaseModel | None:
    """Decode, complete and validate arguments; append to `problems`. Return None if they cannot be decoded."""
    try:
        effective = entry.args.model_validate(args).with_defaults()
    except pydantic.ValidationError as error:
        schema = _schema(entry.args)
        problems += [_decoding_problem(schema, path, dict(item)) for item in error.errors()]
        broken = {item["loc"][0] for item in error.errors() if item["loc"]}
        if isinstance(args, dict) and broken.intersection(args):  # report the problems of the other keys too
            completed_args(entry, {key: value for key, value in args.items() if key not in broken}, path, problems)
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
    value = item["input"]
    if item["type"] == "extra_forbidden":
        keys = keys_at(schema, location[:-1])
        return problem((*path, *location), value, f"one of the keys {', '.join(keys) or '(none)'}")
    if item["type"] == "value_error":
        return problem((*path, *location), value, str(item["ctx"]["error"]).rpartition("want ")[2])
    return problem((*path, *location), value, wanted_at(schema, location))
