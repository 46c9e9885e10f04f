"""Select the plugins and their weights by the `plugins` of a KubeSchedulerConfiguration profile.

    plugins:
      filter: {enabled: [{name: LoadAwareScheduling}], disabled: [{name: MidGuard}]}
      score: {enabled: [{name: LoadAwareScheduling, weight: 1}, {name: TargetLoadPacking, weight: 2}]}

A plugin that is enabled at any point runs exactly where it is enabled. Any other plugin runs by the defaults of the
registry, unless it is disabled there. `multiPoint` means every point; an absent weight, or 0, is 1, as in
kube-scheduler.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from api_types.colocation import problem
from api_types.colocation.problem import KeyPath, Problem
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.registry import ExtensionPoint

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
            problems.append(problem.problem((*at.path, "name"), at.name, f"a {at.point} plugin: {', '.join(able)}"))
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
            self._problems.append(problem.problem(path, value, accepted))
