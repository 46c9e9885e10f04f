"""benchmarks.compare without measuring: order, medians, checkouts, exit codes."""

import pytest

from benchmarks import compare


def fake_costs(monkeypatch, costs):
    measured = []

    def measure(component, source):
        measured.append((component, source))
        return {f"{component}: CPU": costs[source]}

    monkeypatch.setattr(compare, "measure", measure)
    return measured


def test_the_sides_take_turns_at_going_first(monkeypatch, tmp_path):
    measured = fake_costs(monkeypatch, {tmp_path: 1.0, compare.HERE: 2.0})
    costs = compare.compare(tmp_path, compare.HERE, ["agent"], rounds=2)
    assert [source for _, source in measured] == [tmp_path, compare.HERE, compare.HERE, tmp_path]
    assert costs == {"before": {"agent: CPU": [1.0, 1.0]}, "after": {"agent: CPU": [2.0, 2.0]}}


def test_the_ratio_is_that_of_the_medians():
    costs = {"before": {"a": [1.0, 2.0, 100.0]}, "after": {"a": [3.0, 3.0, 0.0]}}
    assert compare.rows(costs) == [("a", 2.0, 3.0, 1.5)]
    assert "| a | 2 | 3 | 1.50 | 1 to 100 | 0 to 3 |" in compare.table(costs)


@pytest.mark.parametrize(("limit", "code"), [([], 0), (["--limit", "110"], 0), (["--limit", "90"], 1)])
def test_fails_only_beyond_the_limit(monkeypatch, tmp_path, capsys, limit, code):
    fake_costs(monkeypatch, {tmp_path: 1.0, compare.HERE: 2.0})
    assert compare.main([str(tmp_path), "--rounds", "1", "--only", "agent", *limit]) == code
    assert "| agent: CPU | 1 | 2 | 2.00 |" in capsys.readouterr().out


def test_an_unknown_revision_is_an_error_with_the_words_of_git(capsys):
    assert compare.main(["no-such-revision"]) == 1
    assert "no-such-revision" in capsys.readouterr().err


def test_a_folder_is_used_as_it_is(tmp_path):
    with compare.checkout(str(tmp_path)) as source:
        assert source == tmp_path
