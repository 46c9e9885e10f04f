"""Every frozen case leads to what it led to; see tests/corpora/README.md before you change an answer."""

import json

import pytest

from tests.corpora.mid import cases
from tests.corpora.mid.replay import replay


@pytest.mark.parametrize("group", cases.groups())
def test_the_cases_lead_to_their_answers(group):
    changed = []
    for case in cases.read(group):
        expected = case.pop("expected")
        if (found := replay(case)) != expected:
            changed.append(f"{case['name']}:\n" + _difference(expected, found))
    assert not changed, f"{len(changed)} cases of {group} changed\n" + "\n".join(changed[:5])


def _difference(expected, found):
    only = [
        [json.dumps(line) for line in lines if line not in others]
        for lines, others in ((expected, found), (found, expected))
    ]
    return (
        "\n".join([*(f"  - {line}" for line in only[0][:4]), *(f"  + {line}" for line in only[1][:4])])
        or "  another order"
    )
