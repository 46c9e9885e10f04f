"""Values of the pages at their limits: digits, places of bars, orders of equal rows, pages that do not exist."""

import dataclasses
import math
import struct
from collections import Counter

import msgspec
import pytest

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric.evaluation_report import Packed
from console.cluster.details import Listed, NodeDetail
from console.cluster.wire import DetailedReport
from console.history.memory import History
from console.pages import fleet, health, mid, node, numbers, prediction, shown
from console.pages.prediction import PredictorScore
from console.seen import Currency, Seen
from console.web import front_end
from fleet.node_state import Amounts, NodeState
from fleet.pod_state import NamespaceState, PodState
from fleet.wire import ObjectReference, WireCondition, WireEvent
from manager.cache import store
from manager.mid_resource import explanation
from tests.console import browsers, fleets
from tests.fleet import cluster

GIB = 2**30
NODE = NodeState("a", allocatable=Amounts(10_000, 40 * GIB), used=Amounts(4_000, GIB), reason="Calculated")


# numbers


@pytest.mark.parametrize(
    ("millis", "text"), [(9_999, "10.00"), (10_000, "10.0"), (99_940, "99.9"), (100_000, "100"), (100_400, "100")]
)
def test_cores_have_three_digits(millis, text):
    assert numbers.cores(millis) == text


@pytest.mark.parametrize(("count", "text"), [(9.94, "9.9"), (10, "10.0"), (99.94, "99.9"), (100, "100")])
def test_gib_have_at_most_one_decimal(count, text):
    assert numbers.gib(count * GIB) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, numbers.UNKNOWN), (0, "0 s"), (119.9, "119 s"), (120, "2 m"), (7_200, "2 h")]
)
def test_an_age_that_is_not_known_is_a_dash(seconds, text):
    assert numbers.age(seconds) == text


# bars


def test_places_on_a_bar_have_one_decimal():
    assert shown.part("used", 33.333, 12.345) == ("used", 33.3, 12.3)
    assert shown.part("used", 99.8, 0.44) == ("used", 99.8, 0.2)
    assert shown.part("used", 0.3, 0.4) == ("used", 0.3, 0.4)
    assert shown.part("used", None, 0.6) == ("used", 0.0, 0.6)
    assert shown.part("used", 12.0, None) == ("used", 12.0, 0.0)


@pytest.mark.parametrize(("peak", "place"), [(None, None), (0, 0.0), (3_333, 33.3), (9_999, 100.0), (20_000, 100.0)])
def test_the_mark_of_the_peak_lies_within_the_bar_also_without_a_usage(peak, place):
    with_peak = dataclasses.replace(NODE, prod_peak=Amounts(peak))
    assert shown.bar_of(with_peak).peak == place
    without_usage = shown.bar_of(dataclasses.replace(with_peak, used=Amounts()))
    assert (without_usage.parts, without_usage.peak) == ((), place)


def test_a_bar_of_one_class_whose_usage_is_known_is_one_part():
    for changes in ({"prod_used": Amounts(1_000)}, {"mid_used": Amounts(1_000)}):
        assert shown.bar_of(dataclasses.replace(NODE, **changes)).parts == (("other", 0.0, 40.0),)


def test_a_bar_without_known_requests_has_no_part_of_them():
    node = dataclasses.replace(NODE, used=Amounts(50), prod_used=Amounts(20), mid_used=Amounts(10))
    assert shown.bar_of(node).parts == (("prod", 0.0, 0.2), ("mid", 0.2, 0.1), ("other", 0.3, 0.2))


# signs


@pytest.mark.parametrize(
    ("reason", "detail", "sign"),
    [
        ("Calculated", "", ("ok", "✔", "Calculated", "as calculated")),
        ("CalculatedFromReclaimable", "x", ("ok", "✔", "Calculated", "as calculated")),
        ("Static", "", ("ok", "✔", "Static", "as calculated")),
        ("SampleTooOld", "21m", ("bad", "✘", "SampleTooOld", "as calculated: 21m")),
        ("NoPrediction", "", ("warn", "!", "NoPrediction", "as calculated")),
        ("SomethingNew", "", ("off", "?", "SomethingNew", "as calculated")),
        ("", "", ("off", "?", "unknown", "as calculated")),
    ],
)
def test_the_sign_of_a_node(reason, detail, sign):
    assert shown.sign_of(dataclasses.replace(NODE, reason=reason, detail=detail, text="as calculated")) == sign


# fleet


def test_what_is_not_known_comes_last_in_every_order():
    amounts = [Amounts(each, each) for each in (1_000, 3_000, 2_000)]
    found = [
        NodeState(
            f"n{number}", Amounts(10_000, 10_000), each, prod_requests=each, prod_peak=each, mid=each,
            sample_age_seconds=float(each.cpu),
        )
        for number, each in enumerate(amounts)
    ]  # fmt: skip
    seen = fleets.seen([NodeState("m"), *found, NodeState("l")])
    for order in fleet.SORTS:
        rows = [row["name"] for row in fleet.context(seen, "", order, "", "suite")["rows"]]
        assert rows == (["l", "m", "n0", "n1", "n2"] if order == "name" else ["n1", "n2", "n0", "l", "m"]), order


@pytest.mark.parametrize(
    ("page", "number"),
    [("", 1), ("0", 1), ("1", 1), ("2", 2), ("3", 3), ("4", 3), ("999999", 3), ("1000000", 1), ("-2", 1), ("²", 1)],
)
def test_a_page_that_does_not_exist_is_the_nearest_or_the_first(page, number):
    found = [
        dataclasses.replace(NODE, name=f"n{index:03}", evaluation=packed(("max", 9, 0, 9))) for index in range(101)
    ]
    seen = fleets.seen(found)
    for values in (fleet.context(seen, "", "name", page, "suite"), prediction.context(seen, page)):
        assert (values["page"], values["pages"], len(values["rows"])) == (number, 3, 1 if number == 3 else 50)


def test_without_rows_there_is_one_page():
    values = fleet.context(fleets.seen([]), "", "", "1", "suite")
    assert (values["page"], values["pages"], values["rows"], values["first"]) == (1, 1, [], 1)
    values = prediction.context(fleets.seen([]), "1")
    assert (values["page"], values["pages"], values["rows"]) == (1, 1, [])


def test_each_sum_of_the_fleet_is_a_bar_from_the_begin_of_the_scale():
    node = dataclasses.replace(
        NODE, prod_used=Amounts(2_000, 0), mid_used=Amounts(1_000, 0), prod_requests=Amounts(8_000, 20 * GIB),
        prod_peak=Amounts(3_000, 8 * GIB), mid=Amounts(5_000, 0), mid_requests=Amounts(2_500, 0),
    )  # fmt: skip
    cpu, memory = fleet.context(fleets.seen([node, node]), "", "", "", "suite")["resources"]
    usage = [("prod", 0, 20), ("mid", 20, 10), ("other", 30, 10)]
    one = [[("request", 0, 80)], usage, [("peak", 0, 30)], [("mid", 0, 50)], [("mid-request", 0, 25)]]
    assert [lane.parts for lane in cpu["lanes"]] == one
    assert [lane.parts[-1] for lane in memory["lanes"]] == [
        ("request", 0, 50), ("other", 0, 2.5), ("peak", 0, 20), ("mid", 0, 0), ("mid-request", 0, 0),
    ]  # fmt: skip
    assert [lane.amount for lane in cpu["lanes"]] == ["16.0", "8.0", "6.0", "10.0", "5.0"]


def test_usage_whose_classes_are_not_known_is_one_part_of_the_sum():
    cpu, memory = fleet.context(fleets.seen([NODE]), "", "", "", "suite")["resources"]
    assert cpu["lanes"][1].parts == [("prod", 0, 0), ("mid", 0, 0), ("other", 0, 40)]
    assert memory["lanes"][1].parts[-1] == ("other", 0, 2.5)
    (cpu, _) = fleet.context(fleets.seen([NodeState("a", Amounts(1_000))]), "", "", "", "suite")["resources"]
    assert [each for lane in cpu["lanes"] for each in lane.parts if each[2]] == []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_where_all_findings_are_shown_there_are_no_more(count):
    broken = [dataclasses.replace(NODE, name=f"n{number}", reason="SampleTooOld") for number in range(count)]
    values = fleet.context(fleets.seen([NODE, *broken]), "", "", "", "suite")
    assert (len(values["findings"]), values["more_findings"]) == (count, 0)


def test_a_filter_of_nodes_is_a_part_of_the_name_or_the_whole_reason():
    seen = fleets.seen([dataclasses.replace(NODE, name="calc"), dataclasses.replace(NODE, name="b", reason="Static")])

    def matching(query):
        return [row["name"] for row in fleet.context(seen, query, "", "", "suite")["rows"]]

    assert [matching(query) for query in (" AL ", "Static", "Stat", "Calculated")] == [["calc"], ["b"], [], ["calc"]]
    assert fleet.context(seen, "x" * 254, "", "", "suite")["q"] == "x" * 253


# mid


def test_a_namespace_whose_held_mid_is_not_known_is_ordered_as_one_without():
    def namespace(name, held):
        return NamespaceState(name, 1, 0, *[Amounts(0, 0)] * 3, Amounts(held, 0), *[Amounts(0, 0)] * 2)

    sums = Listed((namespace("c", None), namespace("d", 1), namespace("b", 0), namespace("a", None)))
    values = mid.context(fleets.seen([NODE]), History(), Listed(()), sums, fleets.NOW)
    assert [each["name"] for each in values["namespaces"]] == ["d", "a", "b", "c"]


def test_events_about_mid_that_was_kept_or_calculated_are_not_shown():
    shown = ["MidResourceReduced", "MidPodEvicted", "SampleTooOld", "ColocationDisabled", "Shadow"]
    hidden = ["Calculated", "CalculatedFromReclaimable", "Static", "NoPrediction", "AwaitingFirstReport"]
    events = Listed(tuple(WireEvent(ObjectReference("Node", "a"), "Normal", reason) for reason in (*hidden, *shown)))
    values = mid.context(fleets.seen([NODE]), History(), events, Listed(()), fleets.NOW)
    assert [each["reason"] for each in values["events"]] == shown


# prediction


def packed(*entries):
    """Pack predictors with forecasts, violations and savings of CPU; those of memory do not count."""
    unknown = (math.nan,) * 3
    values = [each for _, *scores in entries for each in (*scores, *unknown)]
    return Packed(tuple(name for name, *_ in entries), struct.pack(f"{len(values)}f", *values))


def test_the_first_predictor_of_a_node_is_in_force_and_what_does_not_count_is_left_out():
    found = prediction.of_node(packed(("max", 24, 0.5, 40), ("none", math.nan, 1, 1), ("peak", 12, 2, 50)))
    assert found == [
        PredictorScore("max", names.CPU, 1, 24, 0.5, 40, True),
        PredictorScore("peak", names.CPU, 1, 12, 2, 50, False),
    ]


def test_the_shares_of_the_fleet_are_weighted_by_the_forecasts_of_the_nodes():
    own = [packed(("max", 30, 1.0, 50.0)), packed(("max", 10, 0.0, 10.0))]
    seen = fleets.seen([dataclasses.replace(NODE, name=f"n{each}", evaluation=own[each]) for each in (0, 1)])
    (_, (score,)), _ = prediction.context(seen, "1")["by_resource"]
    assert (score.nodes, score.forecasts) == (2, 40)
    assert score.violation_percent == pytest.approx(0.75)  # (30 * 1 + 10 * 0) / 40
    assert score.savings_percent == pytest.approx(40.0)  # (30 * 50 + 10 * 10) / 40


def test_the_columns_of_the_page_are_those_of_the_fleet_and_a_node_may_lack_one():
    many = packed(*((f"p{number}", 24, 0.5, 90 - number) for number in range(7)))
    seen = fleets.seen(
        [
            dataclasses.replace(NODE, name="few", predictor="p1", evaluation=packed(("p1", 24, 0, 90))),
            dataclasses.replace(NODE, name="many", predictor="p0", evaluation=many),
            dataclasses.replace(NODE, name="more", predictor="p0", evaluation=many),
        ]
    )
    values = prediction.context(seen, "1")
    assert values["columns"] == [f"p{number}" for number in range(6)]
    assert [(name, in_force) for name, in_force, _ in values["rows"]] == [("many", "p0"), ("more", "p0"), ("few", "p1")]
    assert [each and each.savings_percent for each in values["rows"][2][2]] == [None, 90, None, None, None, None]
    assert values["in_force"] == [("p0", 2), ("p1", 1)]
    (_, cpu), (_, memory) = values["by_resource"]
    assert [each.predictor for each in cpu if each.is_in_force] == ["p0", "p1"]
    assert memory == []


def test_among_equal_savings_the_predictor_in_force_is_kept():
    scores = [PredictorScore(name, names.CPU, 1, 24.0, 0.5, 40.0, name == "max") for name in ("borg", "max", "peak")]
    assert prediction.recommendation(scores, Counter(max=1)).startswith("Keep max: ")


def test_the_recommendation_compares_with_the_predictor_in_force():
    scores = [
        PredictorScore("max", names.CPU, 1, 24.0, 1.5, 40.4),
        PredictorScore("peak", names.CPU, 1, 24.0, 0.25, 38.0),
    ]
    with_it = prediction.recommendation(scores, Counter(max=1))
    assert with_it.endswith("; max, in force, leaves 40 % with 1.50 %.")
    assert prediction.recommendation(scores, Counter(other=1)).endswith("0.5 % of memory.")


# node


def test_only_the_mid_on_the_node_is_the_result_of_the_sum():
    with_status = cluster.node(annotations=cluster.mid_status(calculated=9_423, peakProd=5_550))
    read = store.with_mid_status(msgspec.convert(with_status, pods.Node))
    values = node.context(NODE, NodeDetail(explanation.explain(read, None)), fleets.seen([NODE]), History(), "suite")
    terms = values["sums"][0]["terms"]
    assert len(terms) > 1
    (result,) = (each for each in terms if each["is_result"])
    assert (result["sign"], result["name"]) == ("=", "Mid on the node")
    assert result["part"] == ("mid", 0, 94.2)  # 9.423 of 10 cores


def test_the_largest_hundred_pods_of_a_node_are_shown_and_all_counted():
    found = tuple(
        PodState("shop", f"p{number:03}", "a", "prod", "Running", used=Amounts(number)) for number in range(102)
    )
    values = node.context(
        NODE, NodeDetail(pods=found, report=DetailedReport()), fleets.seen([NODE]), History(), "suite"
    )
    assert [each["name"] for each in values["pods"]] == [f"p{number:03}" for number in range(101, 1, -1)]
    assert values["pod_count"] == 102


# health


def test_the_headline_of_the_page_health_counts_the_findings():
    broken = dataclasses.replace(NODE, reason="SampleTooOld")
    throttled = dataclasses.replace(NODE, conditions=(WireCondition("Throttled", "True", "PodsThrottled", "x"),))
    for nodes, headline in (
        ([NODE], "Nothing is wrong in what was read"),
        ([broken], "1 finding"),
        ([broken, throttled], "2 findings"),
    ):
        assert health.context(fleets.seen(nodes), Listed(()), "suite", fleets.NOW)["headline"] == headline


# seen


def test_a_node_whose_evaluation_has_no_predictor_comes_last():
    empty, some = (dataclasses.replace(NODE, name=name) for name in ("a", "b"))
    seen = fleets.seen(
        [
            dataclasses.replace(empty, evaluation=Packed((), b"")),
            dataclasses.replace(some, evaluation=packed(("max", 24, 0.0, 40))),
        ]
    )
    assert [each.name for each in seen.prepared().by_violations] == ["b", "a"]


@pytest.mark.parametrize(("seen", "seconds"), [(Seen(), 2), (fleets.seen(fleets.nodes(1)), 15)])
async def test_a_page_refreshes_every_15_seconds_and_sooner_while_it_loads(monkeypatch, seen, seconds):
    monkeypatch.setattr(front_end, "load", lambda: {"htmx.min.js": front_end.File("text/javascript", b"")})
    assert (seen.currency(fleets.NOW) is Currency.LOADING) is (seconds == 2)
    asgi, _ = browsers.app(seen)
    async with browsers.client(asgi) as client:
        assert f'hx-trigger="every {seconds}s"' in (await client.get("/")).text
