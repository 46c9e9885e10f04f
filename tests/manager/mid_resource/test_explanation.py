"""Sentences about the terms of a node's Mid resources."""

import msgspec

from api_types import names
from api_types.node_metric.mid_resource import Terms
from api_types.node_metric.mid_status import MidStatus
from manager.mid_resource import explanation
from manager.mid_resource.decision import Action, Decision
from manager.mid_resource.reasons import STATUS, Reason, Status

NOT_A_TERM = {"source"}
"""Fields of a line that choose the words of other terms."""


def test_every_term_of_the_annotation_has_a_sentence():
    terms = set(Terms.__struct_fields__) - NOT_A_TERM
    line = msgspec.convert(dict.fromkeys(Terms.__struct_encode_fields__, 1) | {"source": "peak"}, Terms)
    written = MidStatus(time="", reason="", resources={names.MID_CPU: line})
    explained = explanation._terms(names.MID_CPU, written)
    assert {term.term for term in explained} == terms


def test_another_source_of_a_calculated_value_is_no_news():
    written = MidStatus(time="", reason=Reason.STATIC, status=Status.CALCULATED)
    assert not explanation._is_news(Decision(Action.CALCULATE, Reason.CALCULATED), written)
    kept = MidStatus(time="", reason=Reason.REPORT_REFUSED, status=STATUS[Reason.REPORT_REFUSED])
    assert explanation._is_news(Decision(Action.CALCULATE, Reason.CALCULATED), kept)


def test_bytes_are_in_gib_from_a_tenth_of_one_on():
    tenth = -(-(2**30) // 10)
    assert explanation.amount(names.MID_MEMORY, tenth) == f"0.1 GiB ({tenth} bytes)"
    assert explanation.amount(names.MID_MEMORY, tenth - 1) == f"{tenth - 1} bytes"
    assert explanation.amount(names.MID_CPU, 1500) == "1.5 cores"
