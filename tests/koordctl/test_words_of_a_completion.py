"""Which words, or names of which objects, may follow the words of a command line."""

import pytest

from koordctl.completion import words
from koordctl.completion.words import Wanted

FORMATS = ["table", "wide", "json", "yaml", "csv", "name"]


def wanted(line, partial=""):
    found = words.wanted(line.split(), partial)
    return list(found.words) or found.kind


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("explain node", "nodes"),
        ("explain node n1", ""),
        ("explain pod", "pods"),
        ("explain pod a/b", ""),
        ("config check", "files"),
        ("config check a", ""),
        ("convert", "files"),
        ("convert a", "files"),
        ("convert a b", "files"),
        ("backtest", ["run", "merge"]),
        ("backtest merge", "files"),
        ("backtest merge a b", "files"),
        ("export rules", ""),
        ("status", ""),
    ],
)
def test_an_argument_is_the_next_one_and_only_the_last_one_is_repeated(line, expected):
    assert wanted(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("top -w", ["nodes", "pods", "namespaces"]),  # a flag without a value
        ("top --sort used", ["nodes", "pods", "namespaces"]),
        ("top --sort -o", ["nodes", "pods", "namespaces"]),  # the value of --sort
        ("top --unknown", ["nodes", "pods", "namespaces"]),
        ("top pods --sort", ""),
        ("top pods -o", FORMATS),
        ("top -w pods -o", FORMATS),
        ("top pods -o json", ""),
        ("explain node -o json", "nodes"),
        ("top pods -n", "namespaces"),
        ("top pods --namespace", "namespaces"),
        ("top pods --suite-namespace", "namespaces"),
        ("top pods --node", "nodes"),
        ("bundle -f", "files"),
        ("bundle --kubeconfig", "files"),
        ("bundle --context", ""),
    ],
)
def test_after_a_flag_follows_its_value_if_it_has_one(line, expected):
    assert wanted(line) == expected


def test_the_long_flags_are_sorted_and_no_argument_is_among_them():
    found = wanted("explain node", "-")
    assert found == sorted(found)
    assert {"--output", "--kubeconfig", "--as", "--help"} <= set(found)
    assert all(each.startswith("--") for each in found)
    assert wanted("explain node -o", "-") == FORMATS


def test_an_unknown_command_and_a_group_without_one_have_no_words():
    assert words.wanted(["statsu"], "") == words.wanted(["top", "nodes", "x"], "") == Wanted()
    assert wanted("explain") == ["node", "pod", "config"]
    assert wanted("explain node-x") == ""
