"""Map the arithmetic cases of trimaran.json to scheduler_plugin/plugins/trimaran."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from scheduler_plugin.plugins.trimaran import (
    beta_distribution,
    load_variation_risk_balancing,
    low_risk_over_commitment,
    peaks,
)
from scheduler_plugin.state.node_columns import Floats

_RESOURCES = ("cpu", "memory")


def _one(value: float) -> Floats:
    return np.array([value], dtype=np.float64)


def _number(value: Any) -> float | str:
    """Return a number as cases have it: JSON has no infinite ones, so these are text as Go prints it."""
    if math.isnan(value):
        return "NaN"
    return float(value) if math.isfinite(value) else "Inf" if value > 0 else "-Inf"


def _fit(inputs: Any) -> beta_distribution.Fit:
    return beta_distribution.Fit(_one(inputs["alpha"]), _one(inputs["beta"]), np.array([True]))


def _resource_score(inputs: Any) -> Any:
    stats = inputs["resourceStats"]
    capacity = _one(stats["capacity"])
    mean, deviation = (np.clip(_one(stats[name]), 0.0, capacity) for name in ("usedAvg", "usedStdev"))
    of = load_variation_risk_balancing.fractions(mean, deviation, max(stats["req"], 0.0), capacity)
    scores = load_variation_risk_balancing.shipped_resource_scores(
        of, capacity, inputs["margin"], inputs["sensitivity"]
    )
    return {"roundedScore": load_variation_risk_balancing.smallest_score(scores[np.newaxis], np.array([[True]]))[0]}


def _mu_sigma(inputs: Any) -> Any:
    stats = inputs["resourceStats"]
    of = load_variation_risk_balancing.fractions(
        _one(stats["usedAvg"]), _one(stats["usedStdev"]), stats["req"], _one(stats["capacity"])
    )
    return {"mu": of.mu[0], "sigma": of.sigma[0]}


def _match_moments(inputs: Any) -> Any:
    fit = beta_distribution.match_moments(_one(inputs["m1"]), _one(inputs["m2"]))
    return {"alpha": _number(fit.alpha[0]), "beta": _number(fit.beta[0]), "ok": bool(fit.is_fitted[0])}


def _probability(inputs: Any) -> Any:
    below, fit = beta_distribution.probability_below(*(_one(inputs[name]) for name in ("mu", "sigma", "threshold")))
    answer: dict[str, Any] = {"probability": below[0], "fitted": bool(fit.is_fitted[0])}
    if fit.is_fitted[0]:
        answer |= {"alpha": _number(fit.alpha[0]), "beta": _number(fit.beta[0])}
    return answer


def _power_jump(inputs: Any) -> Any:
    jump = peaks.jump_watts(*(_one(inputs[name]) for name in ("fromUtil", "toUtil", "k1", "k2")))[0]
    return {"jump": _number(jump), "rawScore": _number(np.trunc(jump * 1e15))}


def _normalised(inputs: Any) -> Any:
    scores = peaks.shipped_power_scores(np.array([row["score"] for row in inputs["scores"]], dtype=np.float64))
    named = zip(inputs["scores"], scores, strict=True)
    return {"scores": [{"name": row["name"], "score": score} for row, score in named]}


def _designed_variation(inputs: Any) -> Any:
    keys = ("cpuCores", "memoryGB")
    capacity, mean, deviation, request = (
        np.array([inputs[name][key] for key in keys], dtype=np.float64)[:, np.newaxis]
        for name in ("nodeCapacity", "usedMean", "usedStdev", "podRequest")
    )
    of = load_variation_risk_balancing.fractions(mean, deviation, 0.0, capacity)
    scores = load_variation_risk_balancing.designed_resource_scores(of, request / capacity, margin=1.0)[:, 0]
    shown = np.floor(np.round(scores, 9) + 0.5)
    return {
        "S": dict(zip(_RESOURCES, 1.0 - scores / inputs["maxPriority"], strict=True)),
        "U": dict(zip(_RESOURCES, scores, strict=True)),
        "displayedU": dict(zip(_RESOURCES, shown, strict=True)),
        "displayedScore": shown.min(),
    }


def _limit_risk(inputs: Any) -> Any:
    request, limit, capacity = (_one(inputs[name]) for name in ("totalRequest", "totalLimit", "capacity"))
    excess, allowed = limit - request, capacity - request
    risk = low_risk_over_commitment.limit_risk(request, limit, capacity)[0]
    return {"excess": excess[0], "allowed": allowed[0], "riskLimit": risk}


def _corrected_sigma(inputs: Any) -> Any:
    sigma = _one(inputs["usedStd"]) / inputs["capacity"]
    return {"sigma": low_risk_over_commitment.unsmoothed_sigma(_one(0.5), sigma, inputs["smoothingWindowSize"])[0]}


ADAPTERS = {
    "loadvariationriskbalancing.computeScore": _resource_score,
    "trimaran.GetMuSigma": _mu_sigma,
    "lowriskovercommitment.DistributionFunction": lambda inputs: {
        "value": beta_distribution.distribution(_fit(inputs), _one(inputs["x"]))[0]
    },
    "lowriskovercommitment.GetMaxVariance": lambda inputs: {
        "value": beta_distribution.largest_variance(_one(inputs["m1"]))[0]
    },
    "lowriskovercommitment.MatchMoments": _match_moments,
    "lowriskovercommitment.ComputeProbability": _probability,
    "peaks.getPowerJumpForUtilisation": _power_jump,
    "peaks.NormalizeScore": _normalised,
    "kep61.loadVariationScore": _designed_variation,
    "kep357.limitRisk": _limit_risk,
    "kep357.correctedSigma": _corrected_sigma,
}


def _is_below_the_resolution(case: Mapping[str, Any]) -> bool:
    return 0.0 < case["input"]["sigma"] < 1e-7


DIFFERENT_ON_PURPOSE = (
    (
        "loadvariationriskbalancing.computeScore",
        lambda case: case["input"]["sensitivity"] < 0,
        "a negative safeVarianceSensitivity is refused with the configuration",
    ),
    (
        "lowriskovercommitment.ComputeProbability",
        _is_below_the_resolution,
        "Trimaran fits infinite parameters to it and returns 0; here it counts as no deviation",
    ),
)
