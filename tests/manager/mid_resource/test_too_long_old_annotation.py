"""A status annotation under its old key that is too long to be kept: another client wrote it."""

import pytest

from api_types.kubernetes import pods
from manager.mid_resource import patch

OLD, NEW = "koordinator.sh/mid-resource-receipt", "koordinator.sh/mid-resource-status"


@pytest.mark.parametrize(
    ("size", "is_kept"), [(pods.MOST_ANNOTATION_BYTES, True), (pods.MOST_ANNOTATION_BYTES + 1, False)]
)
def test_it_is_removed_and_not_written_again(size, is_kept):
    text = "x" * size
    node = pods.Node(metadata=pods.ObjectMeta(name="n1", uid="u1", annotations={OLD: text}))
    assert patch.rename_patch(node) == {
        "metadata": {"uid": "u1", "annotations": {NEW: text if is_kept else None, OLD: None}}
    }


def test_a_node_without_the_old_key_needs_no_write():
    node = pods.Node(metadata=pods.ObjectMeta(name="n1", uid="u1", annotations={NEW: "{}"}))
    assert patch.rename_patch(node) is None
