"""The predictors and presets that a back-test compares, with the Mid policy of each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from api_types.colocation import controller_config, presets
from api_types.colocation.controller_config import ColocationStrategy
from koordlet.cluster import spec_in_force
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.samples import Resource

LONGEST_CALIBRATED_SECONDS: Final = 10_800
DAY_SECONDS: Final = 86_400


@dataclass(frozen=True)
class BacktestCandidate:
    """A policy to replay."""

    name: str
    parameters: PredictParameters
    threshold_percent: dict[Resource, int]
    reclaim_ratio_percent: int
    unallocated_percent: int
    snippet: str
    """JSON of the keys of `clusterStrategy`; empty for a candidate that is compared and not recommended."""
    keeps_with: str = ""
    """Another candidate that has to keep the target too, empty for none."""


def all_candidates(horizon_seconds: int) -> list[BacktestCandidate]:
    """Return every predictor, calibrated with targets of 1 and 2 %, and the presets as they are in force."""
    plain = [
        _candidate(
            name,
            PredictParameters(predictor=name),
            ColocationStrategy(),
            f'{{"enable": true, "nodePredictPolicy": {{"predictor": "{name}"}}}}',
        )
        for name in registry.PREDICTORS
        if name not in ("calibrated", "max", "percentile")
    ]
    # The cold-start period of Koordinator's agent. It charges young pods their requests, which hides how often the
    # percentile itself is too low: where pods live longer than in the history, less is charged.
    percentile = PredictParameters(predictor="percentile")
    cold = dataclasses.replace(percentile, cold_start_period_seconds=DAY_SECONDS)
    policy = f'{{"predictor": "percentile", "coldStartPeriodSeconds": {DAY_SECONDS}}}'
    snippet = f'{{"enable": true, "nodePredictPolicy": {policy}}}'
    plain += [
        _candidate("percentile", percentile, ColocationStrategy(), ""),
        dataclasses.replace(
            _candidate("percentile, cold 24 h", cold, ColocationStrategy(), snippet), keeps_with="percentile"
        ),
    ]
    presets_in_force = [
        _candidate(
            f"preset {preset}",
            spec_in_force.predict_parameters(
                presets.behind_gate(spec_in_force.predict_policy(strategy.node_predict_policy))
            ),
            strategy,
            f'{{"enable": true, "preset": "{preset}"}}',
        )
        for preset, strategy in presets.PRESETS.items()
    ]
    calibrated = [
        _candidate(
            f"calibrated, {percent} %",
            PredictParameters(predictor="calibrated", violation_target_percent=float(percent)),
            ColocationStrategy(),
            "",
        )
        for percent in (1, 2)
    ]
    usable = [
        candidate
        for candidate in [*plain, *calibrated, *presets_in_force]
        if horizon_seconds <= LONGEST_CALIBRATED_SECONDS or not _is_calibrated(candidate.parameters)
    ]
    watched = min(max(horizon_seconds, 900), LONGEST_CALIBRATED_SECONDS)
    return [
        dataclasses.replace(candidate, parameters=dataclasses.replace(candidate.parameters, horizon_seconds=watched))
        for candidate in usable
    ]


def _is_calibrated(parameters: PredictParameters) -> bool:
    return parameters.predictor == "calibrated" or "calibrated" in parameters.members


def _candidate(
    name: str, parameters: PredictParameters, strategy: ColocationStrategy, snippet: str
) -> BacktestCandidate:
    def value(key: str) -> int:
        chosen = getattr(strategy, key)
        return int(getattr(controller_config.DEFAULTS, key) if chosen is None else chosen)

    return BacktestCandidate(
        name=name,
        parameters=parameters,
        threshold_percent={
            Resource.CPU: value("mid_cpu_threshold_percent"),
            Resource.MEMORY: value("mid_memory_threshold_percent"),
        },
        reclaim_ratio_percent=value("mid_reclaim_ratio_percent"),
        unallocated_percent=value("mid_unallocated_percent"),
        snippet=snippet,
    )
