import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.extender.response_rows import ReplyRows
from scheduler_plugin.state.node_columns import NodeEntry
from scheduler_plugin.state.node_load import NodeLoad

dns_names = st.text("abcdefghij0123456789-.", min_size=1, max_size=63)


def filled(names):
    replies = ReplyRows()
    for row, name in enumerate(names):
        if row % 2 == 0:
            replies.grow(row + 2)
        replies.write(NodeEntry(name, row, NodeLoad(2, system_in_prod=False)))
    return replies


@given(st.lists(dns_names, min_size=2, max_size=12, unique=True), st.data())
def test_answers_are_json_of_the_names_and_scores_whatever_their_lengths(names, data):
    replies = filled(names)
    picked = data.draw(st.lists(st.sampled_from(range(len(names))), min_size=1, unique=True))
    scores = data.draw(st.lists(st.integers(0, 100), min_size=len(picked), max_size=len(picked)))
    rows = np.array(picked)
    assert json.loads(b"[%b]" % replies.node_names(rows)) == [names[row] for row in picked]
    assert json.loads(replies.priorities(rows, np.array(scores))) == [
        {"Host": names[row], "Score": score} for row, score in zip(picked, scores, strict=True)
    ]


def test_a_row_that_is_used_again_shows_the_new_name_only():
    replies = filled(["a-rather-long-name", "b"])
    replies.write(NodeEntry("c", 0, NodeLoad(2, system_in_prod=False)))
    assert json.loads(replies.priorities(np.array([0]), np.array([7]))) == [{"Host": "c", "Score": 7}]


def test_nothing_is_an_empty_list():
    assert json.loads(filled(["a", "b"]).priorities(np.array([], dtype=int), np.array([], dtype=int))) == []
