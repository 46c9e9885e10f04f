"""Values of the pages, calculated by hand, and at their limits."""

import dataclasses
import datetime as dt
import math
import struct
from collections import Counter

import pytest

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric.evaluation_report import Packed
from console.cluster.details import (
    Listed,
)
from console.history.memory import History
from console.pages import fleet, health, mid, prediction, shown
from console.pages.prediction import PredictorScore
from console.view import Currency, FleetView
from console.web import app
from fleet import wire
from fleet.finding_kinds import KINDS
from fleet.findings import MANAGER, SCHEDULER, Finding, FleetSnapshot, Installation, Unread
from fleet.node_state import Amounts, NodeState
from fleet.pod_state import NamespaceState
from tests.console import browsers, fleets

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


@pytest.mark.parametrize(("count", "named", "more"), [(1, 1, 0), (5, 5, 0), (7, 5, 2)])
def test_a_finding_names_five_nodes_and_counts_the_others(count, named, more):
    found = Finding(KINDS["SampleTooOld"], tuple(f"n{number}" for number in range(count)), "two days")
    (item,) = shown.items([found], "suite")
    assert (len(item.nodes), item.more, item.style, item.is_command) == (named, more, "bad", False)
    assert item.sentence.endswith(": two days")


def test_the_age_of_a_snapshot_and_when_it_is_stale():
    seen = fleets.seen([NODE])
    later = [NOW + dt.timedelta(seconds=seconds) for seconds in (-5, 0, 60, 61)]
    assert [seen.age_seconds(now) for now in later] == [0, 0, 60, 61]
    assert [seen.currency(now) for now in later] == [*[Currency.CURRENT] * 3, Currency.STALE]
    assert FleetView().age_seconds(NOW) == 0
    assert [FleetView().currency(NOW), FleetView(error="refused").currency(NOW)] == [Currency.LOADING, Currency.FAILED]


def evaluated(name, violations):
    return dataclasses.replace(
        NODE, name=name, evaluation=Packed(("max",), struct.pack("6f", 9, violations, 9, 9, 0, 9))
    )


def test_the_most_violations_come_first_and_a_node_without_an_evaluation_is_left_out():
    empty = dataclasses.replace(NODE, name="empty", evaluation=Packed((), b""))
    without = [evaluated(name, float("nan")) for name in ("none", "blank")]
    seen = fleets.seen([evaluated("few", 0.0), *without, NODE, evaluated("many", 2.0), empty])
    assert [each.name for each in seen.by_violations] == ["many", "few", "blank", "empty", "none"]


def namespace(name, held, **changes):
    amounts = Amounts(held, GIB)
    return NamespaceState(name, 1_234, 0, *[amounts] * 6, **changes)


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


def test_before_the_first_result_the_page_states_how_far_the_nodes_are():
    since = dataclasses.replace(NODE, recorded_since=NOW)
    sentence = prediction.context(fleets.seen([NODE, since]), "")["recommendation"]
    assert f"1 of 2 nodes record, the first since {NOW:%F %R} UTC" in sentence


def test_with_less_than_a_day_of_forecasts_the_answer_is_to_wait():
    few = [PredictorScore("max", names.CPU, 2, 47.0, 0.0, 40.0)]
    assert prediction.recommendation(few, Counter(max=2)).startswith("Wait: a node has at most 24 forecasts on average")
    of_memory = [few[0]._replace(resource=names.MEMORY)]
    assert prediction.recommendation(of_memory, Counter(max=2)).startswith("Wait: a node has at most 0 forecasts")
    fewer = few[0]._replace(predictor="peak", forecasts=20.0)
    assert "at most 24 forecasts" in prediction.recommendation([fewer, *few], Counter(max=2))
    many = [few[0]._replace(forecasts=48.0)]
    assert prediction.recommendation(many, Counter(max=2)).startswith("Keep max")


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
    status = wire.WorkloadStatus(ready_replicas=ready, replicas=wanted)
    found = wire.WireWorkload(pods.ObjectMeta(f"own-{name}"), status=status)
    installed = Installation("suite", workloads={name: found}, leader="m-0", renewed=NOW - dt.timedelta(seconds=9))
    snapshot = FleetSnapshot(NOW, "https://x", (NODE,), installed)
    values = health.context(fleets.seen([], snapshot=snapshot), Listed(()), "suite", NOW)
    (part,) = (each for each in values["parts"] if each["name"] == f"own-{name}")
    assert (part["word"], part["ready"]) == (word, f"{ready} of {wanted}")
    assert part["more"] == ("leader m-0, renewed 9 s ago" if name == MANAGER else "")
    assert [each["word"] for each in values["parts"] if each is not part] == ["not found"] * 3


def test_the_page_health_counts_reports_and_shows_twenty_events():
    events = Listed(tuple(wire.WireEvent(wire.ObjectReference("Node", "a"), "Normal", "x") for _ in range(25)))
    found = [NODE, dataclasses.replace(NODE, name="b", has_report=False)]
    values = health.context(fleets.seen(found), events, "suite", NOW)
    assert (values["reports"], values["nodes"], len(values["events"]), values["read_seconds"]) == (1, 2, 20, "0.2 s")
    assert not values["events_unread"]


def test_what_is_not_read_is_named_unless_it_only_does_not_exist():
    unread = (Unread("nodes", "403", is_right=True), Unread("leases/koord-manager", "404"), Unread("pods", "timeout"))
    snapshot = FleetSnapshot(NOW, "https://x", (NODE,), None, unread)
    values = health.context(fleets.seen([], snapshot=snapshot), Listed(None), "suite", NOW)
    assert [each.what for each in values["left_out"]] == ["pods"]
    assert values["document"] == ""


EDGE = NodeState("a", allocatable=Amounts(10_000, 40 * GIB), used=Amounts(4_000, GIB), reason="Calculated")


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
    assert shown.mid_sign(dataclasses.replace(EDGE, reason=reason, detail=detail, text="as calculated")) == sign


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
        dataclasses.replace(EDGE, name=f"n{index:03}", evaluation=packed(("max", 9, 0, 9))) for index in range(101)
    ]
    seen = fleets.seen(found)
    for values in (fleet.context(seen, "", "name", page, "suite"), prediction.context(seen, page)):
        assert (values["page"], values["pages"], len(values["rows"])) == (number, 3, 1 if number == 3 else 50)


def test_a_filter_of_nodes_is_a_part_of_the_name_or_the_whole_reason():
    seen = fleets.seen([dataclasses.replace(EDGE, name="calc"), dataclasses.replace(EDGE, name="b", reason="Static")])

    def matching(query):
        return [row["name"] for row in fleet.context(seen, query, "", "", "suite")["rows"]]

    assert [matching(query) for query in (" AL ", "Static", "Stat", "Calculated")] == [["calc"], ["b"], [], ["calc"]]
    assert fleet.context(seen, "x" * 254, "", "", "suite")["q"] == "x" * 253


def packed(*entries):
    """Pack predictors with forecasts, violations and savings of CPU; those of memory do not count."""
    unknown = (math.nan,) * 3
    values = [each for _, *scores in entries for each in (*scores, *unknown)]
    return Packed(tuple(name for name, *_ in entries), struct.pack(f"{len(values)}f", *values))


def test_the_first_predictor_of_a_node_is_in_force_and_what_does_not_count_is_left_out():
    found = prediction.node_scores(packed(("max", 24, 0.5, 40), ("none", math.nan, 1, 1), ("peak", 12, 2, 50)))
    assert found == [
        PredictorScore("max", names.CPU, 1, 24, 0.5, 40, True),
        PredictorScore("peak", names.CPU, 1, 12, 2, 50, False),
    ]


def test_the_recommendation_compares_with_the_predictor_in_force():
    scores = [
        PredictorScore("max", names.CPU, 1, 24.0, 1.5, 40.4),
        PredictorScore("peak", names.CPU, 1, 24.0, 0.25, 38.0),
    ]
    with_it = prediction.recommendation(scores, Counter(max=1))
    assert with_it.endswith("; max, in force, leaves 40 % with 1.50 %.")
    assert prediction.recommendation(scores, Counter(other=1)).endswith("0.5 % of memory.")


@pytest.mark.parametrize(
    ("seen", "seconds"),
    [
        (FleetView(), 2),
        (fleets.seen(fleets.nodes(1)), 2),  # stale: the page was asleep
        (fleets.seen(fleets.nodes(1), error="no"), 15),
        (fleets.seen(fleets.nodes(1), late_after_seconds=1e9), 15),
    ],
)
async def test_a_page_refreshes_every_15_seconds_and_sooner_while_it_loads(monkeypatch, seen, seconds):
    monkeypatch.setattr(app, "front_end_files", lambda: {"htmx.min.js": app.File("text/javascript", b"")})
    asgi, _ = browsers.app(seen)
    async with browsers.client(asgi) as client:
        assert f'hx-trigger="every {seconds}s"' in (await client.get("/")).text
