"""Conversion of the live evaluation to the fields of a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from api_types.node_metric import types as node_metric
from koordlet.prediction.evaluation_scores import Record, Scores
from koordlet.samples import Resource


def publishable(records: Mapping[str, Record]) -> list[node_metric.PredictorEvaluation] | None:
    """Return one entry for each predictor, None without any. Rounded, because more digits carry no information."""
    return [
        node_metric.PredictorEvaluation(
            predictor=name,
            horizon_seconds=round(record.horizon_seconds),
            cpu=_resource_evaluation(record.scores.get(Resource.CPU)),
            memory=_resource_evaluation(record.scores.get(Resource.MEMORY)),
        )
        for name, record in records.items()
    ] or None


def _resource_evaluation(scores: Scores | None) -> node_metric.ResourceEvaluation | None:
    if scores is None:
        return None
    severity = scores.severity_ratio
    return node_metric.ResourceEvaluation(
        forecasts=round(scores.forecasts, 1),
        violation_percent=round(100 * scores.violation_ratio, 2),
        severity_percent=None if severity is None else round(100 * severity, 2),
        savings_percent=round(100 * scores.savings_ratio, 2),
    )
