"""What the autoscaler of the nodes changes in the emptying of nodes, where no key of the configuration sets it."""

import datetime as dt

import pytest

from manager.mid_resource.eviction import policy
from tests.manager.mid_resource.eviction.test_mid_only import policy_of


@pytest.mark.parametrize(
    ("keys", "autoscaler", "seconds"),
    [
        ({}, "none", (0, 0)),
        ({}, "karpenter", (300, 600)),
        ({}, "cluster-autoscaler", (300, 600)),
        ({"emptyNodeSeconds": 60}, "none", (60, 600)),
        ({"emptyNodeSeconds": 0}, "karpenter", (0, 0)),
        ({"emptyNodeSeconds": 900}, "karpenter", (900, 900)),
        ({"emptyNodeWithoutRoomSeconds": 0}, "karpenter", (300, 0)),
        ({"emptyNodeWithoutRoomSeconds": 1200}, "karpenter", (300, 1200)),
        ({"mode": "off"}, "karpenter", (0, 0)),
        ({"mode": "advise"}, "karpenter", (300, 600)),
    ],
)
def test_a_key_wins_over_the_autoscaler(keys, autoscaler, seconds):
    assert policy.graces_of(policy_of(**keys), autoscaler) == tuple(dt.timedelta(seconds=each) for each in seconds)


@pytest.mark.parametrize(
    ("keys", "autoscaler", "percent"),
    [
        ({}, "none", 0),
        ({}, "karpenter", 100),
        ({}, "cluster-autoscaler", 50),
        ({"emptyUnderusedPercent": 0}, "karpenter", 0),
        ({"emptyUnderusedPercent": 70}, "cluster-autoscaler", 70),
    ],
)
def test_a_node_whose_pods_an_autoscaler_would_move_is_underused_where_no_key_wins(keys, autoscaler, percent):
    assert policy.underused_percent(policy_of(**keys), autoscaler) == percent
