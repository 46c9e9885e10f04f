"""The packed set of digests behaves as a set."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state.digest_set import DigestSet

digests = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3).map(hash)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard"]), digests)), digests)
def test_has_the_same_elements_as_a_set(taken, other):
    packed, plain = DigestSet(), set()
    for what, digest in taken:
        getattr(packed, what)(digest)
        getattr(plain, what)(digest)
    assert packed == plain
    assert sorted(packed) == sorted(plain)
    assert (other in packed) == (other in plain)
    assert "text" not in packed
