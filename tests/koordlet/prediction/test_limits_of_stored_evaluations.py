"""Stored evaluations at the limits of what an agent can have written."""

import json

import pytest

from koordlet.prediction import evaluation_state

AMOUNTS = {"cpu": 1.0, "memory": 2.0}


def forecast(**changed):
    return {
        "madeAtSeconds": 1.0, "horizonSeconds": 3600.0, "parameters": {}, "pods": ["a"], "requested": AMOUNTS,
        "capacity": AMOUNTS, "peaks": {"nsigma": AMOUNTS}, "highest": AMOUNTS, **changed,
    }  # fmt: skip


def decode(*, records=None, **changed):
    return evaluation_state.decode(json.dumps({
        "savedSeconds": 1.0, "bootSeconds": 1.0, "undecayedSeconds": 0.0, "records": records or {},
        "forecast": forecast(**changed),
    }).encode())  # fmt: skip


def record(horizon_seconds):
    return {"horizonSeconds": horizon_seconds, "parameters": {}, "scores": {}}


@pytest.mark.parametrize(
    "changed",
    [
        {"peaks": {f"predictor {number}": AMOUNTS for number in range(32)}},
        {"peaks": {"p" * 1024: AMOUNTS}},
        {"pods": [f"uid-{number}" for number in range(4096)]},
        {"pods": ["u" * 1024]},
        {"records": {"r" * 1024: record(1e30)}},
        {"records": {f"predictor {number}": record(0.0) for number in range(32)}},
        {"capacity": {}, "highest": {}},
        {"requested": {"cpu": 1.0}},
    ],
)
def test_as_much_as_an_agent_writes_is_read(changed):
    assert decode(**changed).forecast is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"peaks": {f"predictor {number}": AMOUNTS for number in range(33)}},
        {"peaks": {"p" * 1025: AMOUNTS}},
        {"pods": [f"uid-{number}" for number in range(4097)]},
        {"pods": ["u" * 1025]},
        {"records": {"r" * 1025: record(1.0)}},
        {"records": {f"predictor {number}": record(1.0) for number in range(33)}},
        {"records": {"a": record(-1.0)}},
        {"records": {"a": record(1.1e30)}},
        {"peaks": {"a": AMOUNTS, "b": {"cpu": 1.0}}},
        {"peaks": {"a": {"memory": 1.0}, "b": AMOUNTS}},
        {"requested": {"cpu": 1.0, "memory": 0.0}},
        *({name: {"cpu": -1.0, "memory": 1.0}} for name in ("requested", "capacity", "highest")),
        {"peaks": {"a": {"cpu": 1.0, "memory": -1.0}}},
        {"horizonSeconds": -1.0},
        {"elapsedSeconds": -1.0},
        {"unobservedSeconds": -1.0},
    ],
)
def test_what_no_agent_writes_is_refused(changed):
    with pytest.raises(ValueError, match=r"^evaluation: "):
        decode(**changed)
