"""A key of `colocation-config` that no code reads, and a field of a NodeMetric that no agent fills, fail here.

The sources are parsed: a key counts as read where its field is loaded as an attribute or named in a string, a field as
filled where the constructor of its model gets it by keyword. The Mid keys are also varied one by one.
`test_every_key_has_an_effect` changes each key and compares what the programs do.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pydantic
import pytest

from api_types.colocation import controller_config as slo
from api_types.node_metric import mid_report, types
from koordlet.prediction.allocation import Owner

ROOT = Path(__file__).parents[1]
NOT_MEASURED = {
    "devices": "GPUs are not measured",
    "extensions": "for third parties",
    "host_application_metric": "no NodeSLO lists applications outside pods; they count as system usage",
}
READ_ELSEWHERE = {
    # Fields of the Mid policy that `mid_policy` leaves to other code of the manager.
    "mid_max_increase_percent",
    "mid_eviction",
}
READ_BY_THE_AGENT = {"mid_suppress_threshold_percent"}
"""Keys of the Mid policy that have no part in the Mid resources."""


def sources(*folders: str, without: str = "") -> Iterator[ast.AST]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not without or not path.is_relative_to(ROOT / without):
                yield from ast.walk(ast.parse(path.read_text()))


def read_in(*folders: str, without: str = "") -> set[str]:
    found = set()
    for node in sources(*folders, without=without):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def filled_in(folder: str) -> set[tuple[str, str]]:
    """Return (model, field) of each keyword of a call; `**` is an owner, or fields of a model that is filled itself."""
    calls = [node for node in sources(folder) if isinstance(node, ast.Call)]
    named = [(call, getattr(call.func, "attr", getattr(call.func, "id", ""))) for call in calls]
    return {
        (name, field)
        for call, name in named
        for keyword in call.keywords
        for field in ([keyword.arg] if keyword.arg else Owner._fields)
    }


def used_keys(model: type[pydantic.BaseModel]) -> set[str]:
    marked = {
        name for name, info in model.model_fields.items() if any(isinstance(m, slo.Unused) for m in info.metadata)
    }
    return set(model.model_fields) - marked


def models(model: type[pydantic.BaseModel]) -> Iterator[type[pydantic.BaseModel]]:
    """Yield the model and the models of its fields, without those that are not measured."""
    yield model
    for name, info in model.model_fields.items():
        nested = slo.nested_model(info.annotation)
        if nested and name not in NOT_MEASURED and not issubclass(nested, slo.StrategyModel):
            yield from models(nested)


def test_the_manager_reads_every_key_of_the_strategy():
    keys = used_keys(slo.ColocationStrategy) | used_keys(slo.ClusterMidEviction) | {"mid_emergency"}
    assert keys - READ_BY_THE_AGENT <= read_in("manager", "api_types/node_metric")


def test_the_agent_reads_its_keys_of_the_mid_policy():
    assert read_in("koordlet") >= READ_BY_THE_AGENT


def test_the_agent_reads_every_field_of_the_predict_policy():
    """`koordlet/cluster` only passes them on."""
    assert used_keys(slo.PredictPolicy) <= read_in("koordlet", without="koordlet/cluster")


def test_the_agent_reads_every_field_of_the_collect_policy():
    assert used_keys(types.MetricCollectPolicy) | used_keys(types.AggregatePolicy) <= read_in("koordlet")


@pytest.mark.parametrize("field", sorted(used_keys(slo.MidColocationPolicy) - READ_ELSEWHERE - READ_BY_THE_AGENT))
def test_every_mid_key_changes_the_policy_of_a_node(field):
    """Static mode uses every key. A key that changes nothing would be configurable without effect."""
    static = slo.MidColocationPolicy(mid_reclaim_mode=slo.STATIC)
    other = {"mid_reclaim_mode": "", "mid_floor": "none", "mid_publish": "shadow", "enable": True}.get(field, 37)
    assert mid_report.mid_policy(static.model_copy(update={field: other})) != mid_report.mid_policy(static)


def test_the_agent_fills_every_field_of_the_status():
    filled = filled_in("koordlet")
    empty = {
        (model.__name__, field)
        for model in models(types.NodeMetricStatus)
        for field in model.model_fields
        if field not in NOT_MEASURED and not any((base.__name__, field) in filled for base in model.__mro__)
    }
    assert empty == set()


def test_the_agent_fills_only_fields_of_the_models():
    """The models ignore unknown keywords, so a value for a field that the model lacks would be lost silently."""
    fields = {model.__name__: set(model.model_fields) for model in models(types.NodeMetricStatus)}
    calls = [node for node in sources("koordlet") if isinstance(node, ast.Call)]
    of_models = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in fields]
    given = {(call.func.attr, keyword.arg) for call in of_models for keyword in call.keywords if keyword.arg}
    assert given
    assert {(name, field) for name, field in given if field not in fields[name]} == set()
