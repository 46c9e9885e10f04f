"""Values of the pages, calculated by hand."""

import dataclasses
import datetime as dt
import struct
from collections import Counter

import msgspec
import pytest

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric.evaluation_report import Packed
from api_types.node_metric.mid_report import WireResources
from console.cluster.details import Listed, NodeDetail
from console.cluster.wire import DetailedPrediction, DetailedReport, NodeWindows, ProdPeakTerms, UsageOfWindow
from console.history.memory import History, HistoryPoint
from console.pages import fleet, health, mid, node, prediction, shown
from console.pages.prediction import PredictorScore
from console.seen import Currency, Seen
from fleet import wire
from fleet.finding_kinds import KINDS
from fleet.findings import MANAGER, SCHEDULER, Finding
from fleet.node_state import Amounts, NodeState
from fleet.pod_state import NamespaceState, PodState
from fleet.snapshot import FleetSnapshot, Installation, Unread
from tests.console import fleets

pytestmark = pytest.mark.slow

NOW = fleets.NOW
GIB = 2**30
NODE = NodeState(
    "a",
    allocatable=Amounts(10_000, 40 * GIB),
    used=Amounts(4_000, 10 * GIB),
    prod_used=Amounts(2_000, 4 * GIB),
    mid_used=Amounts(1_000, 2 * GIB),
    prod_requests=Amounts(8_000, 20 * GIB),
    prod_peak=Amounts(3_000, 8 * GIB),
    mid=Amounts(5_000, 8 * GIB),
    mid_requests=Amounts(2_500, 4 * GIB),
    sample_age_seconds=30.0,
    reason="Calculated",
    has_report=True,
)


def nodes(count, **changes):
    return [dataclasses.replace(NODE, name=f"n{number:03}", **changes) for number in range(count)]


def points(count):
    return [HistoryPoint(60 * number, (float(number),)) for number in range(count)]


# shown


@pytest.mark.parametrize(
    ("begin", "length", "drawn"),
    [
        (0, 50, (0, 50)),
        (80, 30, (80, 20)),
        (-5, 10, (0, 10)),
        (120, 5, (100, 0)),
        (None, None, (0, 0)),
        (10, -3, (10, 0)),
    ],
)
def test_a_part_of_a_bar_lies_within_the_scale(begin, length, drawn):
    assert shown.part("used", begin, length) == ("used", *drawn)


@pytest.mark.parametrize(("count", "left", "first"), [(0, 0, None), (1, 1, 0), (60, 60, 0), (61, 31, 0), (120, 60, 1)])
def test_of_many_points_some_are_drawn_and_the_newest_is_one(count, left, first):
    drawn = shown.thinned(points(count), 60)
    assert len(drawn) == left
    if count:
        assert (drawn[-1].values[0], drawn[0].values[0]) == (count - 1, first)


@pytest.mark.parametrize(("count", "named", "more"), [(1, 1, 0), (5, 5, 0), (7, 5, 2)])
def test_a_finding_names_five_nodes_and_counts_the_others(count, named, more):
    found = Finding(KINDS["SampleTooOld"], tuple(f"n{number}" for number in range(count)), "two days")
    (item,) = shown.items([found], "suite")
    assert (len(item.nodes), item.more, item.style, item.is_command) == (named, more, "bad", False)
    assert item.sentence.endswith(": two days")


def test_a_command_is_one_with_the_namespace_of_the_suite():
    kinds = [kind for kind in KINDS.values() if kind.fix.startswith("kubectl ") and "NAMESPACE" in kind.fix]
    (item,) = shown.items([Finding(kinds[0])], "suite")
    assert item.is_command
    assert " suite" in item.fix
    assert "NAMESPACE" not in item.fix


def test_an_event_has_its_age_its_object_and_its_count():
    about, metadata = wire.ObjectReference("Pod", "web"), pods.ObjectMeta(namespace="shop")
    event = wire.WireEvent(about, "Warning", "MidPodEvicted", "m" * 1_001, metadata=metadata)
    (row,) = shown.events([event], NOW)
    assert (row["name"], row["is_warning"], row["count"], len(row["message"])) == ("shop/web", True, 1, 1_000)
    assert row["message"].endswith("m…")
    usual = msgspec.structs.replace(event, type="Normal", count=3, message="m" * 1_000)
    (row,) = shown.events([usual], NOW)
    assert (row["is_warning"], row["count"], row["message"]) == (False, 3, "m" * 1_000)


# seen


def test_the_age_of_a_snapshot_and_when_it_is_stale():
    seen = fleets.seen([NODE])
    later = [NOW + dt.timedelta(seconds=seconds) for seconds in (-5, 0, 60, 61)]
    assert [seen.age_seconds(now) for now in later] == [0, 0, 60, 61]
    assert [seen.currency(now) for now in later] == [*[Currency.CURRENT] * 3, Currency.STALE]
    assert Seen().age_seconds(NOW) == 0
    assert [Seen().currency(NOW), Seen(error="refused").currency(NOW)] == [Currency.LOADING, Currency.FAILED]


def evaluated(name, violations):
    return dataclasses.replace(
        NODE, name=name, evaluation=Packed(("max",), struct.pack("6f", 9, violations, 9, 9, 0, 9))
    )


def test_the_most_violations_come_first_and_a_node_without_an_evaluation_is_left_out():
    empty = dataclasses.replace(NODE, name="empty", evaluation=Packed((), b""))
    without = [evaluated(name, float("nan")) for name in ("none", "blank")]
    seen = fleets.seen([evaluated("few", 0.0), *without, NODE, evaluated("many", 2.0), empty])
    assert [each.name for each in seen.by_violations] == ["many", "few", "blank", "empty", "none"]


# fleet


def test_the_page_fleet_of_one_node():
    values = fleet.context(fleets.seen([NODE]), "", "used", "1", "suite")
    assert values["headline"] == "1 node uses 4.00 of 10.0 cores and has 5.00 of Mid"
    assert [index for index, count in enumerate(values["bins"]) if count] == [8]
    (row,) = values["rows"]
    assert [row[key] for key in ("used", "requests", "peak", "mid", "mid_requests", "memory", "age")] == [
        "40 %", "80 %", "30 %", "5.00", "2.50", "25 %", "30 s",
    ]  # fmt: skip
    cpu, memory = values["resources"]
    assert [(lane.name, lane.amount, lane.share) for lane in cpu["lanes"]] == [
        ("Prod requests", "8.00", "80 %"), ("used", "4.00", "40 %"), ("predicted peak of Prod", "3.00", "30 %"),
        ("Mid", "5.00", "50 %"), ("Mid requested", "2.50", "25 %"),
    ]  # fmt: skip
    assert cpu["lanes"][1].parts == [("prod", 0, 20), ("mid", 20, 10), ("other", 30, 10)]
    assert (cpu["whole"], cpu["unit"], memory["name"], memory["unit"]) == ("10.0", "cores", "Memory", "GiB")


@pytest.mark.parametrize(("used", "bin_"), [(0, 0), (499, 0), (500, 1), (9_999, 19), (10_000, 19), (30_000, 19)])
def test_a_node_is_in_the_bin_of_its_usage(used, bin_):
    values = fleet.context(fleets.seen([dataclasses.replace(NODE, used=Amounts(used))]), "", "", "", "suite")
    assert values["bins"] == [int(index == bin_) for index in range(20)]


def test_the_rows_of_the_second_page_follow_those_of_the_first():
    values = fleet.context(fleets.seen(nodes(120)), "", "name", "2", "suite")
    assert [row["name"] for row in values["rows"]] == [f"n{number:03}" for number in range(50, 100)]
    assert [values[key] for key in ("first", "matching", "page", "pages")] == [51, 120, 2, 3]
    assert values["headline"].startswith("120 nodes use 480 of 1,200 cores and have 600 of Mid")
    assert [
        fleet.context(fleets.seen(nodes(50)), "", "", page, "n")["page"] for page in ("0", "1", "2", "-1", "x")
    ] == [1] * 5


def test_eight_findings_are_shown_and_the_others_counted():
    reasons = [code for code in KINDS if code not in ("Calculated", "CalculatedFromReclaimable", "Static")]
    found = [dataclasses.replace(NODE, name=code, reason=code) for code in reasons]
    seen = fleets.seen(found)
    values = fleet.context(seen, "", "", "", "suite")
    assert len(seen.findings) > 8
    assert (len(values["findings"]), values["more_findings"]) == (8, len(seen.findings) - 8)
    assert fleet.context(fleets.seen([]), "", "", "", "suite")["headline"] == "0 nodes, no usage is known yet"


# mid


def namespace(name, held, **changes):
    amounts = Amounts(held, GIB)
    return NamespaceState(name, 1_234, 0, *[amounts] * 6, **changes)


def test_the_page_mid_of_two_nodes():
    seen = fleets.seen([*nodes(2), dataclasses.replace(NODE, reason="NoPrediction")])
    sums = Listed((namespace("small", 750), namespace("large", 3_000)))
    values = mid.context(seen, History(), Listed(()), sums, NOW)
    assert values["headline"] == "15.0 cores and 24.0 GiB of Mid on 3 nodes"
    assert values["totals"] == [
        ("CPU", "cores", "15.0", "7.5", "50 %", "3.0", (("mid-request", 0, 50),), (("mid", 0, 20),)),
        ("Memory", "GiB", "24.0", "12.0", "50 %", "6.0", (("mid-request", 0, 50),), (("mid", 0, 25),)),
    ]
    assert [(sign[2], count) for sign, count in values["states"]] == [("Calculated", 2), ("NoPrediction", 1)]
    large, small = values["namespaces"]
    assert (large["name"], large["mid_held"], large["pods"], large["part"]) == (
        "large", "3.00", "1,234", ("mid-request", 0, 40),
    )  # fmt: skip
    assert (small["mid_held"], small["part"]) == ("0.75", ("mid-request", 0, 10))
    assert (values["more_namespaces"], values["namespaces_unread"], values["events_unread"]) == (0, False, False)


def test_the_page_mid_shows_50_namespaces_and_50_events_of_what_was_taken():
    sums = Listed(tuple(namespace(f"n{number:02}", 1_000) for number in range(53)))
    taken = [
        wire.WireEvent(wire.ObjectReference("Node", "a"), "Warning", reason) for reason in ("MidPodEvicted", "Other")
    ]
    values = mid.context(fleets.seen([NODE]), History(), Listed(tuple(taken * 60)), sums, NOW)
    assert [each["name"] for each in values["namespaces"]] == [f"n{number:02}" for number in range(50)]
    assert values["more_namespaces"] == 3
    assert [each["reason"] for each in values["events"]] == ["MidPodEvicted"] * 50
    unread = mid.context(fleets.seen([NODE]), History(), Listed(None), Listed(None), NOW)
    assert (unread["events_unread"], unread["namespaces_unread"], unread["namespaces"]) == (True, True, [])


# prediction


@pytest.mark.parametrize(
    ("resource", "violations", "keeps", "bar", "target"),
    [
        (names.CPU, 1.0, True, 20.0, 20.0),
        (names.CPU, 1.013, False, 20.3, 20.0),
        (names.MEMORY, 0.5, True, 10.0, 10.0),
        (names.MEMORY, 0.51, False, 10.2, 10.0),
        (names.CPU, 50.0, False, 100.0, 20.0),
    ],
)
def test_the_accepted_violations_of_memory_are_half_of_those_of_cpu(resource, violations, keeps, bar, target):
    score = PredictorScore("max", resource, 1, 100.0, violations, 40.0)
    assert (score.keeps, score.violation_part, score.target_part) == (keeps, bar, target)


@pytest.mark.parametrize(("savings", "bar"), [(-5.0, 0.0), (37.26, 37.3), (101.0, 100.0)])
def test_the_bar_of_savings_lies_within_the_scale(savings, bar):
    assert PredictorScore("max", names.CPU, 1, 100.0, 0.0, savings).savings_part == bar


def scores(*rows):
    """Return scores of CPU with 24 forecasts of a node; a fourth value is the violations of memory."""
    found = [PredictorScore(name, names.CPU, 2, 48.0, violations, savings) for name, violations, savings, *_ in rows]
    return found + [
        PredictorScore(name, names.MEMORY, 2, 48.0, memory[0], 10.0) for name, _, _, *memory in rows if memory
    ]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("max", 1.0, 40.0), ("borg", 1.1, 60.0)], "Keep max: it leaves 40 % of the Prod CPU requests with 1.00 %"),
        ([("max", 1.0, 40.0), ("peak", 0.2, 41.0)], "Use peak: it leaves 41 % of the Prod CPU requests with 0.20 %"),
        ([("max", 1.0, 40.0, 0.5), ("peak", 0.2, 41.0, 0.6)], "Keep max: "),
        ([("max", 1.2, 40.0), ("borg", 1.1, 60.0)], "No predictor keeps at most 1 % violations of CPU and 0.5 % of"),
    ],
)
def test_the_recommended_predictor_keeps_the_target_and_saves_most(rows, sentence):
    assert prediction.recommendation(scores(*rows), Counter(max=2)).startswith(sentence)


def test_with_less_than_a_day_of_forecasts_the_answer_is_to_wait():
    few = [PredictorScore("max", names.CPU, 2, 47.0, 0.0, 40.0)]
    assert prediction.recommendation(few, Counter(max=2)).startswith("Wait: a node has at most 24 forecasts on average")
    of_memory = [few[0]._replace(resource=names.MEMORY)]
    assert prediction.recommendation(of_memory, Counter(max=2)).startswith("Wait: a node has at most 0 forecasts")
    fewer = few[0]._replace(predictor="peak", forecasts=20.0)
    assert "at most 24 forecasts" in prediction.recommendation([fewer, *few], Counter(max=2))
    many = [few[0]._replace(forecasts=48.0)]
    assert prediction.recommendation(many, Counter(max=2)).startswith("Keep max")


def test_the_page_prediction_has_50_rows():
    seen = fleets.seen([evaluated(f"n{number:03}", 1.0) for number in range(101)])
    values = [prediction.context(seen, page) for page in ("1", "2", "3", "4")]
    assert [len(each["rows"]) for each in values] == [50, 50, 1, 1]
    assert [each["page"] for each in values] == [1, 2, 3, 3]
    assert values[1]["rows"][0][0] == "n050"
    assert (values[0]["pages"], values[0]["evaluated"], values[0]["nodes"]) == (3, 101, 101)


# node


def test_the_page_of_a_node():
    detail = NodeDetail(
        report=DetailedReport(
            node_metric=NodeWindows(aggregated_node_usages=[
                UsageOfWindow("5m", {"avg": WireResources({"cpu": "2"}), "p99": WireResources({"cpu": "2500m"})}),
            ]),
            prediction=DetailedPrediction(prod=ProdPeakTerms(
                peak={"cpu": "3", "memory": "8Gi"}, system_peak={"cpu": "500m", "memory": "1Gi"},
            )),
        ),
        pods=(
            PodState("shop", "idle", "a", "prod", "Running", Amounts(1_000, GIB), Amounts(0, 0)),
            PodState("shop", "busy", "a", "mid", "Running", Amounts(1_000, GIB), Amounts(900, GIB // 2)),
            PodState("shop", "new", "a", "prod", "Running", Amounts(1_000, GIB)),
        ),
    )  # fmt: skip
    values = node.context(NODE, detail, fleets.seen([NODE]), History(), "suite")
    assert values["headline"] == "a has 5.00 cores and 8.0 GiB of Mid"
    assert dict(values["facts"])["CPU used"] == "4.00 of 10.0 cores"
    assert dict(values["facts"])["Mid requested"] == "2.50 cores, 4.0 GiB"
    assert values["windows"] == [("5m", ["20 %", "–", "–", "–", "25 %"])]  # noqa: RUF001
    assert values["peak_terms"] == [
        ("system usage beyond what the node reserves", "0.50", "1.0"), ("reported peak", "3.00", "8.0"),
    ]  # fmt: skip
    assert [(pod["name"], pod["used"], pod["slack"]) for pod in values["pods"]] == [
        ("busy", "0.90", "0.10"), ("idle", "0.00", "1.00"), ("new", "–", "–"),  # noqa: RUF001
    ]  # fmt: skip
    assert [(pod["memory_requests"], pod["memory_used"]) for pod in values["pods"]] == [
        ("1.0", "0.5"), ("1.0", "0.0"), ("1.0", "–"),  # noqa: RUF001
    ]  # fmt: skip
    assert (values["pod_count"], values["pods_unread"]) == (3, False)
    nothing = node.context(dataclasses.replace(NODE, mid=Amounts()), None, fleets.seen([NODE]), History(), "suite")
    assert (nothing["headline"], nothing["pods_unread"], nothing["pods"]) == ("a has no Mid", True, [])


# health


@pytest.mark.parametrize(
    ("name", "ready", "wanted", "word"),
    [
        (MANAGER, 2, 2, "ready"),
        (MANAGER, 1, 1, "ready"),
        (MANAGER, 1, 2, "degraded"),
        (SCHEDULER, 0, 2, "not ready"),
        ("koordlet", 2, 3, "not ready"),
        ("koordlet", 0, 0, "not ready"),
    ],
)
def test_a_part_is_ready_where_all_replicas_are(name, ready, wanted, word):
    found = wire.WireWorkload(status=wire.WorkloadStatus(ready_replicas=ready, replicas=wanted))
    installed = Installation("suite", workloads={name: found}, leader="m-0", renewed=NOW - dt.timedelta(seconds=9))
    snapshot = FleetSnapshot(NOW, "https://x", (NODE,), None, installed)
    values = health.context(fleets.seen([], snapshot=snapshot), Listed(()), "suite", NOW)
    (part,) = (each for each in values["parts"] if each["name"] == name)
    assert (part["word"], part["ready"]) == (word, f"{ready} of {wanted}")
    assert part["more"] == ("leader m-0, renewed 9 s ago" if name == MANAGER else "")
    assert [each["word"] for each in values["parts"] if each["name"] != name] == ["not found"] * 2


def test_the_page_health_counts_reports_and_shows_twenty_events():
    events = Listed(tuple(wire.WireEvent(wire.ObjectReference("Node", "a"), "Normal", "x") for _ in range(25)))
    found = [NODE, dataclasses.replace(NODE, name="b", has_report=False)]
    values = health.context(fleets.seen(found), events, "suite", NOW)
    assert (values["reports"], values["nodes"], len(values["events"]), values["read_seconds"]) == (1, 2, 20, "0.2 s")
    assert not values["events_unread"]


def test_what_is_not_read_is_named_unless_it_only_does_not_exist():
    unread = (Unread("nodes", "403", is_right=True), Unread("leases/koord-manager", "404"), Unread("pods", "timeout"))
    snapshot = FleetSnapshot(NOW, "https://x", (NODE,), None, None, unread)
    values = health.context(fleets.seen([], snapshot=snapshot), Listed(None), "suite", NOW)
    assert [each.what for each in values["unread"]] == ["nodes", "pods"]
    assert values["document"] == ""
