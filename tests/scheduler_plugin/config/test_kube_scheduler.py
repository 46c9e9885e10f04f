"""The scores of kube-scheduler that spread what TargetLoadPacking packs."""

import pytest

from scheduler_plugin.config import kube_scheduler

FIT, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


def of(*names):
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("plugins", "spreading"),
    [
        ({}, [FIT, BALANCED]),
        ({"score": {"disabled": of(FIT, BALANCED)}}, []),
        ({"score": {"disabled": of(FIT)}}, [BALANCED]),
        ({"score": {"disabled": of("*")}}, []),
        ({"score": {"disabled": of("*"), "enabled": of(FIT)}}, [FIT]),
        ({"multiPoint": {"disabled": of("*")}}, []),
        ({"multiPoint": {"disabled": of(BALANCED)}}, [FIT]),
        ({"multiPoint": {"disabled": of("*"), "enabled": of(BALANCED)}}, [BALANCED]),
        ({"score": {"disabled": of("ImageLocality")}}, [FIT, BALANCED]),
    ],
)
def test_those_that_are_in_force_are_named(plugins, spreading):
    found = list(kube_scheduler.spreading({"profiles": [{"plugins": plugins}]}))
    assert [each.path for each in found] == [("profiles", 0, "plugins", "score", "disabled")] * bool(spreading)
    assert [problem.expected.partition(" too: ")[0] for problem in found] == [" and ".join(spreading)] * bool(spreading)


def extender(port, **verbs):
    return {"urlPrefix": f"http://127.0.0.1:{port}", **verbs}


@pytest.mark.parametrize(
    ("extenders", "paths"),
    [
        ([extender(9, filterVerb="filter")], [("extenders", 0, "filterVerb")]),
        ([extender(9, filterVerb="f", preemptVerb="p"), extender(10261)], []),
        ([extender(9, filterVerb="f"), extender(10261, preemptVerb="preempt")], [("extenders", 1, "preemptVerb")]),
        (["nonsense", extender(10261, filterVerb="filter")], [("extenders", 1, "filterVerb")]),
        (["nonsense"], []),
    ],
)
def test_filter_calls_of_another_extender_are_not_called_needless(extenders, paths):
    assert [each.path for each in kube_scheduler.needless_filter_calls({"extenders": extenders})] == paths
