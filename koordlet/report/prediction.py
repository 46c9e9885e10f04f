"""Conversion of a prediction in cores and bytes to the whole units and the fields of a report. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from api_types import names, wire_model
from api_types.colocation import controller_config
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import Record, Scores
from koordlet.prediction.peaks import NodePeak, Peak
from koordlet.prediction.server import Prediction
from koordlet.report import status
from koordlet.samples import Resource


def units(amounts: WholeAmounts) -> dict[str, int]:
    """Return whole amounts by resource name."""
    return {names.CPU: amounts.cpu_millis, names.MEMORY: amounts.memory_bytes}


def _prod(prediction: Prediction) -> node_metric.ProdPrediction:
    cpu, memory = prediction.prod[Resource.CPU], prediction.prod[Resource.MEMORY]
    return node_metric.ProdPrediction(
        peak=status.whole_resources(units(prediction.prod_peak)),
        class_peak=_term(cpu.class_peak, memory.class_peak),
        pod_sum_peak=_term(cpu.pod_sum_peak, memory.pod_sum_peak),
        cold_requests=_term(cpu.cold_requests, memory.cold_requests),
        system_peak=_term(cpu.system_peak, memory.system_peak),
    )


def _term(cpu_cores: float | None, memory_bytes: float | None) -> wire_model.ResourceList | None:
    """Return one term of a peak, None where the predictor has none."""
    return None if cpu_cores is None or memory_bytes is None else status.peak_resources(cpu_cores, memory_bytes)


def _node(cpu: NodePeak, memory: NodePeak) -> node_metric.NodePrediction:
    return node_metric.NodePrediction(
        mean=status.peak_resources(cpu.mean, memory.mean),
        stdev=status.peak_resources(cpu.stdev, memory.stdev),
        peak=status.peak_resources(cpu.peak, memory.peak),
    )


def _levels(prod: Mapping[Resource, Peak]) -> node_metric.CalibrationLevels | None:
    cpu, memory = prod[Resource.CPU].level, prod[Resource.MEMORY].level
    if cpu is None or memory is None:
        return None
    return node_metric.CalibrationLevels(cpu=cpu, memory=memory)


def publishable(
    prediction: Prediction,
    policy: controller_config.PredictPolicy,
    predicted_at: dt.datetime,
    evaluated: Mapping[str, Record],
) -> status.PredictedPeak:
    """Return the prediction as published, with the live evaluation: every peak, mean and deviation is rounded up."""
    node = prediction.node
    return status.PredictedPeak(
        prediction=node_metric.PredictionStatus(
            predictor=prediction.parameters.predictor,
            parameters=spec_in_force.published_policy(policy, prediction.parameters),
            time=predicted_at,
            since=dt.datetime.fromtimestamp(prediction.since_seconds, dt.UTC),
            level=_levels(prediction.prod),
            warm_pods=prediction.warm_pods,
            cold_pods=prediction.cold_pods,
            node=_node(node[Resource.CPU], node[Resource.MEMORY]) if node else None,
            prod=_prod(prediction),
            evaluation=publishable_records(evaluated),
        ),
        peak=units(prediction.prod_peak),
        reclaimable=units(prediction.prod_reclaimable),
        allocated=prediction.prod_allocated,
    )


def publishable_records(records: Mapping[str, Record]) -> list[node_metric.PredictorEvaluation] | None:
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
