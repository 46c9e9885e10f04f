"""The eviction annotation, which a node may write, too: it costs no memory for longer than it is there."""

import msgspec
import pytest

from api_types.kubernetes import pods
from api_types.node_metric import mid_eviction


def node(pod):
    record = mid_eviction.MidEvictionRecord(time="2026-10-21T12:00:00Z", since="2026-10-21T12:00:00Z", pod=pod)
    annotations = {"koordinator.sh/mid-eviction": mid_eviction.encode(record)}
    return msgspec.convert({"metadata": {"name": "n1", "annotations": annotations}}, type=pods.Node)


@pytest.mark.parametrize(("characters", "kept"), [(317, 1), (10_000, 0)])
def test_a_record_longer_than_any_of_the_manager_is_read_and_not_cached(characters, kept):
    before = mid_eviction._decoded.cache_info().currsize
    assert mid_eviction.of(node("p" * characters)).pod == "p" * characters
    assert mid_eviction._decoded.cache_info().currsize == before + kept
