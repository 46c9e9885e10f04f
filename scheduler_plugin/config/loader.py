"""Load the plugins' configuration: a profile of KubeSchedulerConfiguration, or a whole one.

    plugins:                      # the plugins that run, and their weights; rules in plugin_profile
      score: {enabled: [{name: LoadAwareScheduling, weight: 3}]}
    pluginConfig:                 # arguments, with upstream's names
    - name: LoadAwareScheduling
      args:
        usageThresholds: {cpu: 65, memory: 95}

In a whole KubeSchedulerConfiguration, kube-scheduler's own parts are ignored. The loader reports all problems of the
file together, each with key path, value seen and value wanted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pydantic
import yaml

from api_types.colocation.problem import KeyPath, Problem
from api_types.kubernetes import yaml_text
from component_base.settings import SettingsError
from scheduler_plugin.config import kube_scheduler, plugin_profile
from scheduler_plugin.config.kube_scheduler import problem
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran.args import LowRiskOverCommitmentArgs, PeaksArgs, PowerModel
from scheduler_plugin.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment

POWER_MODEL_VARIABLE: Final = "NODE_POWER_MODEL"


class NoPowerModel(ValueError):
    """There is no power model; the message states what is wanted."""


def with_models(args: PeaksArgs, environ: Mapping[str, str] = os.environ) -> PeaksArgs:
    """Return the arguments with models: their own, else those of the file. Raises NoPowerModel."""
    if args.node_power_model:
        return args
    file = environ.get(POWER_MODEL_VARIABLE, "")
    try:
        content = Path(file).read_text(encoding="utf-8")
        models = pydantic.TypeAdapter(dict[str, PowerModel]).validate_json(content)
    except (OSError, UnicodeDecodeError) as error:
        raise NoPowerModel(
            f"power models by node name, here or in the file of {POWER_MODEL_VARIABLE} ({error})"
        ) from error
    except pydantic.ValidationError as error:
        details = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'the document'}: {item['msg']}" for item in error.errors()
        )
        raise NoPowerModel(f"k0, k1 and k2 by node name in {file} ({details})") from error
    return args.model_copy(update={"node_power_model": models})


_LARGEST_WITHOUT_EXPONENT: Final = 1e21
"""From here on Go writes an exponent into JSON, and no integer reads it."""
_USUAL_NAME: Final = "default-scheduler"
_PROFILE_KEYS: Final = ("schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig")


class InvalidConfiguration(SettingsError):
    """The file cannot be used; `problems` has one line for each problem."""


@dataclass(frozen=True)
class PluginConfiguration:
    """The plugins that run, with completed and validated arguments; names in the registry's order."""

    args: Mapping[str, pydantic.BaseModel]
    """Of every plugin that runs, and of LoadAwareScheduling, which contains the estimator's arguments."""
    filters: tuple[str, ...]
    score_weights: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """Return the effective configuration, in the form of the file, with every default."""
        all_others = [{"name": "*"}]
        weighted = [{"name": name, "weight": weight} for name, weight in self.score_weights.items()]
        return {
            "plugins": {
                "filter": {"enabled": [{"name": name} for name in self.filters], "disabled": all_others},
                "score": {"enabled": weighted, "disabled": all_others},
            },
            "pluginConfig": [
                {"name": name, "args": args.model_dump(mode="json", by_alias=True, exclude_none=True)}
                for name, args in self.args.items()
            ],
        }


class _Profile(NamedTuple):
    """A profile of a document."""

    name: str
    """Of a whole configuration; empty for the one profile of every kube-scheduler."""
    content: Mapping[str, Any]
    path: KeyPath
    with_others: bool
    """Whether it may name kube-scheduler's own plugins too."""


def load(file_name: str | None) -> PluginConfiguration:
    """Read a configuration file with one profile; None is an empty one. Raises InvalidConfiguration."""
    return only(load_all(file_name))


def load_all(file_name: str | None) -> dict[str, PluginConfiguration]:
    """Read a configuration file; see `parse_all`. Raises InvalidConfiguration."""
    document = {} if file_name is None else read(file_name)
    try:
        return parse_all(document)
    except InvalidConfiguration as error:
        raise InvalidConfiguration([f"{file_name}: {text}" for text in error.problems]) from error


def read(file_name: str) -> Any:
    """Return the one document of a file, an empty one where there is none. Raises InvalidConfiguration."""
    try:
        document = yaml_text.load(Path(file_name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration([f"cannot read the configuration {file_name}: {error}"]) from error
    except yaml.YAMLError as error:
        raise InvalidConfiguration([f"the configuration {file_name} is not YAML: {error}"]) from error
    return as_json({} if document is None else document)


def as_json(value: Any) -> Any:
    """Convert YAML values to JSON ones, as kube-scheduler does: keys and timestamps become text, 65.0 is 65."""
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WITHOUT_EXPONENT:
        return int(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def parse(document: Any) -> PluginConfiguration:
    """Validate and complete a document with one profile. Raises InvalidConfiguration."""
    return only(parse_all(document))


def only(configurations: Mapping[str, PluginConfiguration]) -> PluginConfiguration:
    """Return the one configuration. Raises InvalidConfiguration where there are several."""
    if len(configurations) > 1:
        raise InvalidConfiguration([f"profiles {', '.join(configurations)} with plugins of this project, want one"])
    (configuration,) = configurations.values()
    return configuration


def effective_document(configurations: Mapping[str, PluginConfiguration]) -> dict[str, Any]:
    """Return the effective configurations, in the form of the file, with every default."""
    if len(configurations) == 1:
        return only(configurations).document()
    return {"profiles": [{"schedulerName": name, **one.document()} for name, one in configurations.items()]}


def parse_all(document: Any) -> dict[str, PluginConfiguration]:
    """Validate and complete a document; return its profiles with plugins of this project, by name, or one without them.

    The name is empty where the document is one profile. Raises InvalidConfiguration.
    """
    problems: list[Problem] = []
    configurations = {}
    for profile in _profiles(as_json(document), problems):
        if profile.name in configurations:
            problems.append(problem((*profile.path, "schedulerName"), profile.name, "a name of its own"))
        configurations[profile.name] = _parse(profile, problems)
    if problems:
        raise InvalidConfiguration(list(map(str, problems)))
    return configurations


def _parse(profile: _Profile, problems: list[Problem]) -> PluginConfiguration:
    args_by_plugin = plugin_profile.plugin_args(
        profile.content.get("pluginConfig"), (*profile.path, "pluginConfig"), problems, with_others=profile.with_others
    )
    selection = plugin_profile.select(
        profile.content.get("plugins"), (*profile.path, "plugins"), problems, with_others=profile.with_others
    )
    running = {*selection.filters, *selection.score_weights}
    effective = {}
    for name, entry in registry.PLUGINS.items():
        if name in args_by_plugin and name not in running and not entry.runs_by_default:
            where = " or ".join(f"plugins.{point}.enabled" for point in sorted(entry.points))
            problems.append(
                problem(args_by_plugin[name][0], name, f"an entry in {where} too: arguments alone enable nothing")
            )
        if name in args_by_plugin or name in running or name == LoadAware.name:
            path, args = args_by_plugin.get(name, ((), {}))
            completed = plugin_profile.completed_args(entry, args, path, problems)
            if isinstance(completed, PeaksArgs):
                try:
                    completed = with_models(completed)
                except NoPowerModel as error:
                    problems.append(problem((*path, "nodePowerModel"), completed.node_power_model, str(error)))
            if completed is not None:
                effective[name] = completed
    try:
        specs = trimaran_args.common_specs({name: args for name, args in effective.items() if name in running})
        if LowRiskOverCommitment.name in effective and specs:
            _path, args = args_by_plugin.get(LowRiskOverCommitment.name, ((), {}))
            effective[LowRiskOverCommitment.name] = LowRiskOverCommitmentArgs.model_validate(args).with_defaults(specs)
    except trimaran_args.Contradiction as error:
        name, want = error.args
        problems.append(problem(*args_by_plugin[name], want))
    return PluginConfiguration(effective, selection.filters, selection.score_weights)


def names_plugins(value: Any) -> bool:
    """Return whether a document names a plugin of this suite anywhere, also misspelt."""
    if isinstance(value, dict):
        return _is_suite_plugin(value.get("name")) or any(map(names_plugins, value.values()))
    return isinstance(value, list) and any(map(names_plugins, value))


def _profiles(document: Any, problems: list[Problem]) -> list[_Profile]:
    nothing = [_Profile("", {}, (), with_others=False)]
    if not isinstance(document, dict):
        problems.append(problem((), document, "an object with plugins and pluginConfig"))
        return nothing
    if not kube_scheduler.is_configuration(document):
        if document.get("kind", kube_scheduler.KIND) != kube_scheduler.KIND:
            problems.append(problem(("kind",), document["kind"], f"{kube_scheduler.KIND}, or a profile without a kind"))
            return nothing
        keys = ("apiVersion", "kind", *_PROFILE_KEYS)
        problems += [
            problem((key,), value, f"one of the keys {', '.join(keys)}")
            for key, value in document.items()
            if key not in keys
        ]
        return [_Profile("", document, (), with_others=False)]
    profiles = [] if document.get("profiles") is None else document["profiles"]
    if not isinstance(profiles, list) or not all(isinstance(profile, dict) for profile in profiles):
        problems.append(problem(("profiles",), profiles, "a list of objects with plugins and pluginConfig"))
        return nothing
    chosen = [
        _Profile(profile.get("schedulerName") or _USUAL_NAME, profile, ("profiles", index), with_others=True)
        for index, profile in enumerate(profiles)
        if names_plugins(profile)
    ]
    if document.get("extenders"):
        want = "them in one profile: all profiles share the extender"
        problems += [problem(profile.path, "plugins of the extender", want) for profile in chosen[1:]]
    return chosen or [_Profile("", profiles[0] if profiles else {}, ("profiles", 0), with_others=True)]


def _is_suite_plugin(name: Any) -> bool:
    try:
        return isinstance(name, str) and bool(name) and plugin_profile.own_name(name, with_others=True) is not None
    except ValueError:
        return True
