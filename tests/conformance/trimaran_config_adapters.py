"""Map the cases about the arguments of the Trimaran plugins to the configuration that the extender loads."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from api_types.colocation.problem import Problem
from scheduler_plugin.config import loader, plugin_profile
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.trimaran.args import PeaksArgs, TrimaranArgs
from scheduler_plugin.plugins.trimaran.measurements import Measurements

_CONSTRUCTED = {
    "targetloadpacking.New": "TargetLoadPacking",
    "loadvariationriskbalancing.New": "LoadVariationRiskBalancing",
    "lowriskovercommitment.New": "LowRiskOverCommitment",
}


class Refused(ValueError):
    """The arguments are refused with the configuration."""


def completed(name: str, args: Mapping[str, Any] | None) -> Any:
    """Decode, complete and validate the arguments of one plugin as the loader does. Raises Refused."""
    found: list[Problem] = []
    own = plugin_profile.completed_args(registry.PLUGINS[name], args or {}, (), found)
    if found:
        raise Refused("; ".join(map(str, found)))
    return own


def _constructor(name: str) -> Any:
    def adapter(inputs: Any) -> Any:
        given = {"formula": "upstream", **(inputs.get("args") or {})}
        try:
            args = completed(name, given)
        except Refused as error:
            return {"error": str(error)}
        built = registry.PLUGINS[name].create(args, Measurements())
        written = args.model_dump(mode="json", by_alias=True)
        found = {"error": None, "effectiveArgs": {key: written[key] for key in inputs.get("args") or {}}}
        if name == "LowRiskOverCommitment":
            weights = dict(zip(("cpu", "memory"), [weight for (weight,) in built.weights], strict=True))
            found |= {
                "effectiveRiskLimitWeights": weights,
                "effectiveSmoothingWindowSize": args.smoothing_window_size,
            }
        return found

    return adapter


def _peaks_args(inputs: Any) -> dict[str, Any]:
    """Return the arguments of a case, which states all of them or the models alone."""
    args = inputs.get("args") or {}
    return {"nodePowerModel": inputs["nodePowerModel"]} if "nodePowerModel" in inputs else args


def _power_models(inputs: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(inputs.get("env") or {})
        for name, content in (inputs.get("files") or {}).items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        if environment.get(loader.POWER_MODEL_VARIABLE):
            environment[loader.POWER_MODEL_VARIABLE] = str(Path(folder, environment[loader.POWER_MODEL_VARIABLE]))
        try:
            args = loader.with_models(completed("Peaks", _peaks_args(inputs)), environment)
        except (Refused, loader.NoPowerModel) as error:
            return {"error": str(error)}
    models = {name: model.model_dump() for name, model in (args.node_power_model or {}).items()}
    return {"error": None, "effectiveNodePowerModel": models, "models": models}


def _power_model(inputs: Any) -> Any:
    args = PeaksArgs.model_validate({"nodePowerModel": inputs["nodePowerModel"]})
    model = (args.node_power_model or {}).get(inputs["nodeName"])
    return {"model": model.model_dump() if model else {"k0": 0, "k1": 0, "k2": 0}}


def _specs(inputs: Any) -> Any:
    document = {
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
        "pluginConfig": [{"name": "TargetLoadPacking", "args": inputs["trimaranSpec"]}],
    }
    try:
        loader.parse(document)
    except loader.InvalidConfiguration as error:
        return {"error": str(error)}
    return {"error": None}


def _with_defaults(inputs: Any) -> Any:
    entry = registry.PLUGINS[inputs["kind"].removesuffix("Args")]
    args = entry.args.model_validate({**(inputs.get("args") or {}), "formula": "upstream"}).with_defaults()
    written = json.loads(args.model_dump_json(by_alias=True, exclude_none=True, exclude={"metric_provider", "formula"}))
    given = args.metric_provider is not None
    return {"args": written | ({"metricProvider": _provider(args)} if given or not args.watcher_address else {})}


def _provider(args: TrimaranArgs) -> Any:
    """Return upstream's keys of the provider in force, those that are set."""
    provider = args.model_copy(update={"watcher_address": None}).provider_specs()[0]
    found = {"type": provider.type, "address": provider.address, "token": provider.token.get_secret_value()}
    found = {key: value for key, value in found.items() if value or key == "type"}
    skips = provider.insecure_skip_verify
    return found if skips is None else found | {"insecureSkipVerify": skips}


ADAPTERS = {
    **{function: _constructor(name) for function, name in _CONSTRUCTED.items()},
    "peaks.New": _power_models,
    "peaks.initNodePowerModels": _power_models,
    "peaks.getPowerModel": _power_model,
    "trimaran.NewCollector": _specs,
    "trimaran.checkSpecs": _specs,
    "config.setDefaults": _with_defaults,
}


def _spec(case: Mapping[str, Any]) -> Mapping[str, Any]:
    inputs = case["input"]
    return inputs.get("trimaranSpec") or inputs.get("args") or {}


def _has_no_watcher(case: Mapping[str, Any]) -> bool:
    spec = _spec(case)
    return "watcher" not in case["input"] and not (spec.get("watcherAddress") or spec.get("WatcherAddress"))


def _names_no_provider(case: Mapping[str, Any]) -> bool:
    return _has_no_watcher(case) and (_spec(case).get("metricProvider") or {}).get("type") is None


def _lacks_a_token(case: Mapping[str, Any]) -> bool:
    provider = _spec(case).get("metricProvider") or {}
    return _has_no_watcher(case) and provider.get("type") == provider_spec.SIGNALFX and not provider.get("token")


def _takes_default_provider(case: Mapping[str, Any]) -> bool:
    """Return whether Trimaran fills in its own provider, or leaves a provider without a type."""
    provider = _spec(case).get("metricProvider")
    return not (provider or {}).get("type") and (_has_no_watcher(case) or provider is not None)


def _has_models_alone(case: Mapping[str, Any]) -> bool:
    models = _peaks_args(case["input"]).get("nodePowerModel")
    return bool(models) and _has_no_watcher(case)


def _loses_the_file(case: Mapping[str, Any]) -> bool:
    inputs = case["input"]
    return bool(inputs.get("files")) and _peaks_args(inputs).get("nodePowerModel") is None


def _has_no_args(case: Mapping[str, Any]) -> bool:
    return case["input"].get("args") is None


def is_out_of_range(case: Mapping[str, Any]) -> bool:
    """Return whether an argument is outside its range, which Trimaran replaces or uses."""
    args = case["input"].get("args") or {}
    ranges = {
        "targetUtilization": (1, 100),
        "safeVarianceMargin": (0, math.inf),
        "safeVarianceSensitivity": (0, math.inf),
        "smoothingWindowSize": (1, math.inf),
    }
    numbers = {key: args[key] for key in ranges if args.get(key) is not None}
    weights = args.get("riskLimitWeights") or {}
    try:
        multiplier = float(args.get("defaultRequestsMultiplier") or 1)
    except ValueError:
        multiplier = 1.0  # an error in both
    return (
        any(not ranges[key][0] <= value <= ranges[key][1] for key, value in numbers.items())
        or any(name not in ("cpu", "memory") or not 0 <= weight <= 1 for name, weight in weights.items())
        or not (math.isfinite(multiplier) and multiplier > 0)
    )


_VALIDATED = "decision 17: arguments are validated, never silently replaced"
_DEFAULT_PROVIDER = "decision 17: the in-process default provider is NodeMetric"
_NO_TOKEN = "decision 17: arguments are validated; without a token SignalFx fails"
_FROM_FILE = "the models of the file count where the arguments have none"
_SCORED = ("targetloadpacking.Score", "loadvariationriskbalancing.Score", "lowriskovercommitment.Score")

DIFFERENT_ON_PURPOSE = (
    ("peaks.New", _loses_the_file, _FROM_FILE),
    ("peaks.initNodePowerModels", _loses_the_file, _FROM_FILE),
    ("peaks.New", _has_models_alone, _DEFAULT_PROVIDER),
    ("config.setDefaults", _takes_default_provider, _DEFAULT_PROVIDER),
    *((name, _names_no_provider, _DEFAULT_PROVIDER) for name in ("trimaran.checkSpecs", "trimaran.NewCollector")),
    *((name, _lacks_a_token, _NO_TOKEN) for name in ("trimaran.checkSpecs", "trimaran.NewCollector")),
    *((name, _lacks_a_token, _NO_TOKEN) for name in _CONSTRUCTED),
    *((name, _has_no_args, "decision 17: a plugin without arguments has the default ones") for name in _CONSTRUCTED),
    *((name, _names_no_provider, _DEFAULT_PROVIDER) for name in _CONSTRUCTED),
    *(
        (name, is_out_of_range, _VALIDATED)
        for name in (*_CONSTRUCTED, *_SCORED, "config.setDefaults", "scheduler.placeSequentially")
    ),
)
