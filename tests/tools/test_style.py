"""The word check: whole words, parts of identifiers, and exceptions that must match something."""

import pytest

from tools.style import __main__ as style
from tools.style import sizes

BANNED = style.pattern(style.entries(style.HERE / "banned_words.txt"))


@pytest.mark.parametrize(
    "text", ["It tells the caller.", "def tell_overlap():", "mended in time", "A Way Out", "for ever", "stand-alone"]
)
def test_finds_a_banned_word(text):
    assert len(list(style.uses("a.py", text, BANNED))) == 1


@pytest.mark.parametrize(
    "text", ["amend the commit", "look up the row", "a lookup", "hours", "essay", "standard", "wishbone"]
)
def test_accepts_words_that_only_contain_one(text):
    assert list(style.uses("a.py", text, BANNED)) == []


def test_fails_on_a_banned_word_and_on_an_unused_exception(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text("This says it all.\n")
    (tmp_path / "banned_words.txt").write_text("says\n")
    (tmp_path / "exceptions.txt").write_text("other.md: says: a quotation\n")
    monkeypatch.setattr(style, "HERE", tmp_path)
    monkeypatch.setattr(style, "REPOSITORY", tmp_path)
    monkeypatch.setattr(style, "tracked_files", lambda paths: ["page.md"])
    monkeypatch.setattr(style.sizes, "problems", lambda root: [])
    monkeypatch.setattr(style.names, "problems", lambda root: [])
    assert style.main([]) == 1
    printed = capsys.readouterr().out
    assert 'page.md:1: "says"' in printed
    assert "other.md: says: matches nothing" in printed
    (tmp_path / "exceptions.txt").write_text("page.md: says: a quotation\n")
    assert style.main([]) == 0


def test_what_is_too_large_is_named(tmp_path):
    for folder in (*sizes.MEASURED, "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "small.py").write_text("def small():\n    a = 1\n    return a\n")
    assert [*sizes.problems(tmp_path)] == []
    (tmp_path / "fleet" / "long.py").write_text("a = 1\n" * 401)
    (tmp_path / "manager" / "deep.py").write_text("def all_of_it():\n" + "    a = 1\n" * 60)
    (tmp_path / "tests" / "test_long.py").write_text("a = 1\n" * 1001)
    for number in range(21):
        (tmp_path / "koordlet" / f"m{number}.py").write_text("")
    found = [line.partition(",")[0] for line in sizes.problems(tmp_path)]
    assert found[:3] == [
        "fleet/long.py: 401 lines",
        "tests/test_long.py: 1001 lines",
        "manager/deep.py: all_of_it: 61 lines of a function",
    ]
    assert found[-2:] == ["koordlet: 22 modules", "koordlet: 22 entries"]


def test_loose_names_and_functions_called_of_are_counted(tmp_path):
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "pods.py").write_text(
        "def names_of(pods):\n    for each in pods:\n        yield each.name\n\n\nclass Pod: ...\n"
    )
    (tmp_path / "fleet" / "nodes.py").write_text("class Pod: ...\n")
    measured = style.names.measure(tmp_path)
    assert (measured.bindings, measured.loose) == (2, {"fleet/pods.py": 1})
    assert measured.of_functions == ["fleet/pods.py:1 names_of"]
    assert measured.shared_classes == {"Pod": ["fleet/nodes.py", "fleet/pods.py"]}
