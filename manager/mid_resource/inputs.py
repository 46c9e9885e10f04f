"""What is known of a node's reports, boiled down to what a judgement needs. Pure."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

from api_types.colocation import controller_config as slo
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import MidPolicy, MidReport
from api_types.node_metric.mid_resource import NoPredictionError
from manager.cache import store
from manager.mid_resource import status_annotation

_CENTURY_SECONDS: Final = 100 * 365 * 24 * 3600


@dataclass(frozen=True)
class DecisionInputs:
    """Times are aware; None where there is none."""

    enabled: bool
    degrade_after: dt.timedelta
    node_metric_exists: bool
    exists_since: dt.datetime | None
    """When the Node or its NodeMetric was created, whichever is younger: older samples are of a namesake."""
    sample_time: dt.datetime | None
    usable: bool
    """Whether Mid can be calculated from the newest report: it holds a prediction, or the mode needs none."""
    refused: str | None
    """What is wrong with the newest report, where it holds a value that cannot be."""
    last_usable: dt.datetime | None
    """Sample time of the last report that could be used."""


def degrade_time(strategy: slo.MidColocationPolicy) -> dt.timedelta:
    """Age beyond which a sample does not count."""
    return period(60 * (strategy.degrade_time_minutes or slo.DEFAULTS.degrade_time_minutes or 15))


def period(seconds: int) -> dt.timedelta:
    """Period that the configuration gives in seconds, a century at most: no later moment can be told."""
    return dt.timedelta(seconds=min(seconds, _CENTURY_SECONDS))


def gather(
    node: pods.Node,
    metric: store.NodeMetric | None,
    policy: MidPolicy,
    *,
    enabled: bool,
    degrade_after: dt.timedelta,
    last_usable: dt.datetime | None = None,
) -> DecisionInputs:
    """Evidence on one node; `last_usable` is what the manager remembers, the node's receipt may know better."""
    report = (metric.status if metric else None) or MidReport()
    usable, refused = _checked(report, policy)
    births = [store.created(each) for each in (node, metric) if each is not None]
    samples = [last_usable, _sample_of_receipt(node)]
    return DecisionInputs(
        enabled=enabled,
        degrade_after=degrade_after,
        node_metric_exists=metric is not None,
        exists_since=max((birth for birth in births if birth), default=None),
        sample_time=times.parse_rfc3339_or_none(report.update_time),
        usable=usable,
        refused=refused,
        last_usable=max((sample for sample in samples if sample), default=None),
    )


def _checked(report: MidReport, policy: MidPolicy) -> tuple[bool, str | None]:
    try:
        mid_report.check_usable(report, policy)
    except NoPredictionError:
        return False, None
    except mid_report.BadReport as error:
        return False, str(error)
    return True, None


def _sample_of_receipt(node: pods.Node) -> dt.datetime | None:
    written = status_annotation.of_node(node)
    return times.parse_rfc3339_or_none(written.sample) if written else None
