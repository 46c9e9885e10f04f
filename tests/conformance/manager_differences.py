"""Cases of Koordinator's manager that differ on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.colocation import document as colocation_document
from manager.mid_resource import target
from manager.slo_config import evaluation, strategy
from tests.conformance.manager_adapters import annotations_of, labels_of, pod_of, target_of


def _truncated_differently(ratio: str) -> bool:
    percent = strategy.percent_of_ratio(ratio)
    return percent is not None and percent != int(float(ratio) * 100)


def _label_differs(case: Mapping[str, Any]) -> bool:
    if "label_value" in case["input"]:
        return _truncated_differently(case["input"]["label_value"])
    labels = labels_of(case["input"].get("node") or {})
    return any(_truncated_differently(labels[label]) for label in strategy.RATIO_LABELS if label in labels)


def _annotation_out_of_range(case: Mapping[str, Any]) -> bool:
    """Return whether an annotation is well-formed and refused for its values: Koordinator does not check them."""
    given = case["input"].get("node") or case["input"]
    text = annotations_of(given).get(names.ANNOTATION_COLOCATION_STRATEGY)
    if text is None:
        return False
    found, problems = colocation_document.read_strategy(text)
    said_no = ("a known key", "at least", "above", "at most", "one of")
    return found is None and all(any(each in problem.expected for each in said_no) for problem in problems)


def _not_static(case: Mapping[str, Any]) -> bool:
    return (case["input"].get("strategy") or {}).get("midReclaimMode") != slo.STATIC


def _calculates(case: Mapping[str, Any]) -> bool:
    """Return whether all inputs of a formula are present."""
    return all(case["input"].get(key) for key in ("strategy", "node", "nodeMetric"))


def _floor_decides(case: Mapping[str, Any]) -> bool:
    """Return whether running Mid pods request more than is calculated without them."""
    given = case["input"].get("pods") or ()
    bound = target.summed(map(pod_of, given)).requests().mid
    others = [each for each in given if not target.summed([pod_of(each)]).requests().mid]
    calculated = target_of({**case["input"], "pods": others}).values if bound else {}
    return any(amount > (calculated.get(mid) or 0) for mid, amount in bound.items())


def _share_is_binary(case: Mapping[str, Any]) -> bool:
    """Return whether a share of the node is one less when it is multiplied in binary64 and truncated."""
    if not _calculates(case):
        return False
    given = case["input"]["strategy"]
    percents = [value for key, value in given.items() if key.startswith("mid") and key.endswith("Percent")]
    amounts = case["input"]["node"]["capacity"].values()
    return any(int(amount * (percent / 100)) != amount * percent // 100 for amount in amounts for percent in percents)


def _has_unknown_key(case: Mapping[str, Any]) -> bool:
    found = colocation_document.read_config(evaluation.document_text(case["input"]["configmap_data"]))
    return any(problem.expected.startswith("a known key") for problem in found.problems)


def _document_is_lost(case: Mapping[str, Any]) -> bool:
    """Return whether there is no document, and one that is not the defaults was in force before."""
    cached = (case["input"].get("cache") or {}).get("config") or case["input"].get("cache_config") or {}
    is_other = not cached.items() <= slo.DEFAULTS.to_wire().items()
    is_lost = evaluation.document_text(case["input"]["configmap_data"]) is None
    return is_other and is_lost and not case["input"].get("cache_available")


def _selects_by_expressions_alone(case: Mapping[str, Any]) -> bool:
    selector = (case["input"]["nodeConfig"] or {}).get("nodeSelector") or {}
    return bool(selector.get("matchExpressions")) and not selector.get("matchLabels")


def _formula_differs(case: Mapping[str, Any]) -> bool:
    """Return whether a term of only one of the formulas can decide: the size of the cap, or the unallocated share."""
    given = case["input"]
    if not _calculates(case) or not _not_static(case):
        return False
    has_share = bool(given["strategy"].get("midUnallocatedPercent"))
    predicts = bool(given["nodeMetric"].get("prodReclaimable"))
    return has_share or (predicts and given["node"]["capacity"] != given["node"]["allocatable"])


_TAKES_A_DOCUMENT = ("sync colocation config", "config availability", "NodeMetric spec")
_ROUNDING = "ratios are rounded half-up, not truncated"
_FORMULA = "capped by a share of allocatable, the unallocated share outside the cap and inside what is unused"
_VALIDATED = "annotations are validated like the ConfigMap"
DIFFERENT_ON_PURPOSE = [
    ("UpdateColocationStrategyForNode", _label_differs, _ROUNDING),
    ("UpdateColocationStrategyForNode", _annotation_out_of_range, _VALIDATED),
    ("GetNodeColocationStrategy", _label_differs, _ROUNDING),
    ("GetNodeColocationStrategy", _annotation_out_of_range, _VALIDATED),
    ("GetColocationStrategyOnNode", _annotation_out_of_range, _VALIDATED),
    (
        "IsNodeColocationCfgValid",
        _selects_by_expressions_alone,
        "matchExpressions alone select nodes, as where Koordinator applies an entry; its helper has no caller",
    ),
    *(
        (function, applies, reason)
        for function in ("midresource Calculate", "node resource calculation (mid part)")
        for applies, reason in (
            (_formula_differs, _FORMULA),
            (_floor_decides, "never less than the bound Mid pods request"),
            (
                _share_is_binary,
                "decision 23: a share is an integer, floored to whole milli-cores and bytes",
            ),
        )
    ),
    *((function, _has_unknown_key, "any other unknown key is an error") for function in _TAKES_A_DOCUMENT),
    *(
        (function, _document_is_lost, "decision 24: a lost document changes nothing")
        for function in ("sync colocation config", "config availability")
    ),
    (
        "node update needed",
        lambda case: case["input"].get("new_node", case) is None,
        "a node that does not exist is not in the store, and nothing is compared",
    ),
    (
        "node update needed",
        lambda case: bool(case["input"].get("meta_change")),
        "one patch has both resources and the status annotation, nothing else is written to a node",
    ),
]
