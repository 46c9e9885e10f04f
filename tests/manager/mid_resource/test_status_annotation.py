import datetime as dt

import pytest

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import mid_resource, mid_status
from api_types.node_metric.mid_resource import Terms

NOW = dt.datetime(2026, 11, 21, 12, 0, 0, 999_999, tzinfo=dt.UTC)


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
