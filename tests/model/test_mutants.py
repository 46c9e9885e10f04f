"""The model finds each fault that it was made for: with one safeguard taken out, what has to hold no longer does."""

import dataclasses
import re

import msgspec
import pytest

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import mid_resource
from koordlet.cluster import pods as pods_on_node
from koordlet.prediction.usage_models import UsageModels
from manager.mid_resource.target import NodePods
from manager.slo_config import evaluation
from tests.model import actions, run

pytestmark = [pytest.mark.slow, pytest.mark.long]

MOST_SEEDS = 12
STEPS = 500


def usage_does_not_bound_the_offer(patch):
    real = mid_resource.calculate
    patch.setattr(
        mid_resource,
        "calculate",
        lambda inputs, **more: real(msgspec.structs.replace(inputs, unused=2**62, usable=None), **more),
    )


def the_floor_admits_pods(patch):
    real = mid_resource.calculate

    def calculate(inputs, **more):
        terms = real(inputs, **more)
        return msgspec.structs.replace(terms, calculated=terms.value)

    patch.setattr(mid_resource, "calculate", calculate)


def a_withdrawal_counts_pods_that_came_after_it(patch):
    patch.setattr(NodePods, "mid_bound_until", lambda self, _time: self.requests().mid)


def a_node_name_is_an_admission(patch):
    patch.setattr(pods, "is_admitted", lambda pod: not pods.is_terminal(pod))
    patch.setattr(mid_resource, "bounded_floor", lambda requested, _capacity: requested)


def an_annotation_is_an_identity(patch):
    real = pods_on_node.describe

    def describe(pod, *more):
        claimed = pods.annotation_map(pod.metadata).get(names.ANNOTATION_STATIC_POD_HASH)
        described = real(pod, *more)
        return dataclasses.replace(described, uid=claimed) if claimed else described

    patch.setattr(pods_on_node, "describe", describe)


def age_is_history(patch):
    train = UsageModels.train
    patch.setattr(UsageModels, "recorded_seconds", lambda self, keys: self.trained_seconds - self.first_seconds(keys))
    patch.setattr(UsageModels, "train", lambda self, now, samples, lives, _boot=None: train(self, now, samples, lives))


def an_absent_configuration_is_an_order(patch):
    real, off = evaluation.evaluate, {"colocation-config": '{"enable": false}'}
    patch.setattr(
        evaluation, "evaluate", lambda force, data, *, exists: real(force, data if exists else off, exists=True)
    )


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (
            usage_does_not_bound_the_offer,
            r"is offered; (unused|calculated|the node evicts)|a restart of the kubelet evicts",
        ),
        (the_floor_admits_pods, r"the guard passed|held by pods that were bound before"),
        (a_withdrawal_counts_pods_that_came_after_it, r"a withdrawal .* offers|is offered; calculated"),
        (a_node_name_is_an_admission, r"as allocated, admitted|is offered|the floor of|a withdrawal .* offers"),
        (an_annotation_is_an_identity, r"without the tricks of tenants"),
        (age_is_history, r"pods are warm, recorded for"),
        (an_absent_configuration_is_an_order, r"switched off, though"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_the_model_finds_what_happens_without_a_safeguard(fault, finding, monkeypatch):
    fault(monkeypatch)
    for seed in range(MOST_SEEDS):
        steps = actions.drawn(seed, STEPS)
        if violations := run.execute(steps, guarded=seed % 2 == 0, seed=seed).violations:
            assert re.search(finding, violations[0]), violations
            return
    pytest.fail(f"no violation within {MOST_SEEDS} runs of {STEPS} steps")
