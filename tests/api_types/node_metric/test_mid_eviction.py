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
    assert mid_eviction.eviction_record(node("p" * characters)).pod == "p" * characters
    assert mid_eviction._decoded.cache_info().currsize == before + kept


def test_a_record_of_a_closed_node_states_times_alone_and_the_rest_is_empty():
    record = mid_eviction.MidEvictionRecord(time="2026-10-21T12:00:00Z", since="2026-10-21T11:59:00Z")
    text = mid_eviction.encode(record)
    assert msgspec.json.decode(text) == {"time": "2026-10-21T12:00:00Z", "since": "2026-10-21T11:59:00Z"}
    metadata = {"name": "n1", "annotations": {"koordinator.sh/mid-eviction": text}}
    found = mid_eviction.eviction_record(msgspec.convert({"metadata": metadata}, type=pods.Node))
    assert (found.pod, found.uid, found.trigger, found.recent) == ("", "", "", 0)
