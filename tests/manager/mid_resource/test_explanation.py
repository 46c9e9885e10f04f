"""Sentences about the terms of a node's Mid resources."""

import msgspec
import pytest

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import mid_resource, mid_status
from api_types.node_metric.mid_resource import Terms
from api_types.node_metric.mid_status import MidStatus
from manager.mid_resource import explanation

NOT_A_TERM = {"source"}
"""Fields of a line that choose the words of other terms."""


def test_every_term_of_the_annotation_has_a_sentence():
    terms = set(Terms.__struct_fields__) - NOT_A_TERM
    line = msgspec.convert(dict.fromkeys(Terms.__struct_encode_fields__, 1) | {"source": "peak"}, Terms)
    written = MidStatus(time="", reason="", resources={names.MID_CPU: line})
    explained = explanation._terms(names.MID_CPU, written)
    assert {term.term for term in explained} == terms


def node(text):
    annotations = {} if text is None else {names.ANNOTATION_MID_STATUS: text}
    return pods.Node(metadata=pods.ObjectMeta(annotations=annotations))


def test_terms_that_static_mode_does_not_use_are_absent():
    inputs = Terms(allocatable=10, capacity=12, allocated_prod=8, allocated_mid=0, peak_prod=3, static_percent=50)
    terms = mid_resource.calculate(inputs, has_floor=False)
    assert (terms.source, terms.reclaimable, terms.capacity) == ("static", 6, 12)
    assert (terms.peak_prod, terms.unallocated_percent, terms.floor) == (None, None, None)


OF_A_HAND = '{"time": "", "reason": "", "resources": {"kubernetes.io/mid-cpu": {"published": -5}}}'
DEEP = '{"x": ' + "[" * 100_000


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"time": 1, "reason": "x"}', OF_A_HAND, DEEP])
def test_an_invalid_annotation_is_none(text):
    assert mid_status.decode(mid_status.text_of(node(text))) is None
