"""Sentences about the terms of a node's Mid resources."""

import msgspec

from api_types import names
from api_types.node_metric.mid_resource import Terms
from api_types.node_metric.mid_status import MidStatus
from manager.mid_resource import explanation

NOT_A_TERM = {"source"}
"""Fields of a line that choose the words of other terms."""


def test_every_term_of_the_annotation_has_a_sentence():
    terms = set(Terms.__struct_fields__) - NOT_A_TERM
    line = msgspec.convert(dict.fromkeys(Terms.__struct_encode_fields__, 1) | {"source": "peak"}, Terms)
    written = MidStatus(time="", reason="", resources={names.MID_CPU: line})
    explained = explanation._terms(names.MID_CPU, written)
    assert {term.term for term in explained} == terms
