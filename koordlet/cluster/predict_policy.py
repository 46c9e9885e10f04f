"""`spec.predictPolicy` of the NodeMetric -> what the predictors and the report schedule are given. Pure."""

from __future__ import annotations

from api_types.colocation import controller_config
from koordlet.prediction.parameters import PredictParameters


def in_force(policy: controller_config.PredictPolicy | None) -> controller_config.PredictPolicy:
    """The policy with every default filled in for the keys that the spec leaves out."""
    defaults = controller_config.with_defaults(controller_config.PredictPolicy)
    return defaults if policy is None else defaults.model_copy(update=policy.model_dump(exclude_none=True))


def parameters(policy: controller_config.PredictPolicy) -> PredictParameters:
    """Parameters of the predictors by a policy that is in force; all of its keys are set."""
    given = policy.model_dump(
        include={field for field in PredictParameters.__dataclass_fields__ if field in type(policy).model_fields},
        exclude_none=True,
    )
    if "members" in given:
        given["members"] = tuple(given["members"])
    return PredictParameters(**given)


def published(policy: controller_config.PredictPolicy, used: PredictParameters) -> controller_config.PredictPolicy:
    """The policy as `status.prediction.parameters` shows it: what the predictor really used, the margin spelled out."""
    return policy.model_copy(
        update={
            "predictor": used.predictor,
            "n": used.n,
            "percentile": used.percentile,
            "cpu_percentile": used.cpu_percentile,
            "memory_percentile": used.memory_percentile,
            "request_divisor": used.request_divisor,
            "members": list(used.members),
            "safety_margin_percent": round(used.margin_percent),
            "cold_start_period_seconds": round(used.cold_start_period_seconds),
            "cpu_half_life_seconds": round(used.cpu_half_life_seconds),
            "memory_half_life_seconds": round(used.memory_half_life_seconds),
        }
    )
