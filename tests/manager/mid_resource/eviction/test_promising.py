"""Which underused nodes are listed again because they would be closed by the lists that there are."""

import pytest

from manager.mid_resource.eviction.mid_only import MOST_COMPARED
from manager.mid_resource.reasons import Closed
from tests.manager.mid_resource.eviction.test_mid_only import at, keeper, pod, survey, underused

LONG_AGO, NOW = at(0), at(1000)


def fleet(count, *, keepers=(), place=(4000, 40), **more):
    """Return nodes n00, n01, ... whose other pods request more and more, and one empty node as their only place."""
    nodes = {f"n{index:02}": underused((20 * index, 0), **more) for index in range(1, count + 1)}
    of_place = underused((4000 - place[0], 40 - place[1]), kept_because="it is not removed", free=(10**6, 10**6))
    found = survey(**nodes, place=of_place)
    for index in range(1, count + 1):
        found.attempted(f"n{index:02}", LONG_AGO)
        found.listed(f"n{index:02}", keepers or [keeper((20 * index, 0))], [pod("m")], LONG_AGO)
    return found


def test_those_that_request_the_least_come_first_and_only_so_many_as_may_be_closed():
    found = fleet(90)
    names = found.promising((), 3, NOW)
    assert names == ["n01", "n02", "n03"]
    assert found.mid_only((), NOW) == [], "an old list is no reason to close"
    assert found.due((), 10, NOW, names) == names
    assert len(found.promising((), 99, NOW)) == MOST_COMPARED


@pytest.mark.parametrize(
    ("more", "listed"),
    [
        ({}, ["n01"]),
        ({"keepers": [keeper((20, 0)), keeper(None)]}, []),
        ({"closed": Closed.FROZEN}, []),
        ({"is_current": False}, []),
    ],
)
def test_one_that_may_not_be_emptied_is_not_listed(more, listed):
    assert fleet(1, **more).promising((), 9, NOW) == listed


def test_one_that_is_emptied_or_was_just_given_up_is_not_listed():
    found = fleet(1)
    assert found.promising({"n01"}, 9, NOW) == []
    found.leave_alone("n01", NOW)
    assert found.promising((), 9, NOW) == []


@pytest.mark.parametrize(("has_mid_pods", "seconds", "listed"), [(True, 1059, 0), (True, 1060, 1), (False, 9000, 0)])
def test_without_a_mid_pod_in_its_list_it_is_listed_once_a_minute_where_a_report_shows_one(
    has_mid_pods, seconds, listed
):
    found = fleet(1, has_mid_pods=has_mid_pods)
    found.listed("n01", [keeper((20, 0))], [], NOW)
    assert len(found.promising((), 9, at(seconds))) == listed


def test_before_the_grace_is_over_none_is_listed():
    assert (fleet(1).promising((), 9, at(299)), fleet(1).promising((), 9, at(300))) == ([], ["n01"])


def test_one_whose_pods_have_no_place_is_not_listed():
    found = fleet(2, keepers=[keeper((3990, 0))], place=(100, 40))
    assert found.promising((), 9, NOW) == []
    assert found.due((), 10, NOW) == []
