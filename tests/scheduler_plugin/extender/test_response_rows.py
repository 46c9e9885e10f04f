import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.extender.response_rows import ResponseRows
from scheduler_plugin.state.node_columns import NodeEntry
from scheduler_plugin.state.node_load import NodeLoad

dns_names = st.text("abcdefghij0123456789-.", min_size=1, max_size=63)


def filled(names):
    responses = ResponseRows()
    for row, name in enumerate(names):
        if row % 2 == 0:
            responses.grow(row + 2)
        responses.write(NodeEntry(name, row, NodeLoad(2, system_in_prod=False)))
    return responses


@given(st.lists(dns_names, min_size=2, max_size=12, unique=True), st.data())
def test_responses_are_json_of_names_and_scores_of_any_length(names, data):
    responses = filled(names)
    picked = data.draw(st.lists(st.sampled_from(range(len(names))), min_size=1, unique=True))
    scores = data.draw(
        st.lists(
            st.integers(0, 100) | st.sampled_from([101, 300, 100_000, 2**40]),
            min_size=len(picked),
            max_size=len(picked),
        )
    )
    rows = np.array(picked)
    assert json.loads(b"[%b]" % responses.node_names(rows)) == [names[row] for row in picked]
    assert json.loads(responses.priorities(rows, np.array(scores))) == [
        {"Host": names[row], "Score": score} for row, score in zip(picked, scores, strict=True)
    ]


def test_a_reused_row_has_the_new_name_only():
    responses = filled(["a-rather-long-name", "b"])
    responses.write(NodeEntry("c", 0, NodeLoad(2, system_in_prod=False)))
    assert json.loads(responses.priorities(np.array([0]), np.array([7]))) == [{"Host": "c", "Score": 7}]


def test_no_rows_give_an_empty_list():
    assert json.loads(filled(["a", "b"]).priorities(np.array([], dtype=int), np.array([], dtype=int))) == []
