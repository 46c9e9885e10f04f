"""The word check: whole words, parts of identifiers, and exceptions that must match something."""

import pytest

from tools.style import __main__ as style

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


def test_reports_path_and_line():
    (use,) = style.uses("a.py", "first\nthen it says so", BANNED)
    assert (use.path, use.line, use.word) == ("a.py", 2, "says")


def test_an_exception_covers_one_word_of_one_file():
    use = style.Use("a.py", 1, "Nobody", "the user Nobody")
    assert style.Allowed("a.py", "nobody").covers(use)
    assert style.Allowed("a.py", "*").covers(use)
    assert not style.Allowed("b.py", "nobody").covers(use)
    assert not style.Allowed("a.py", "said").covers(use)


def test_fails_on_a_banned_word_and_on_an_unused_exception(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text("This says it all.\n")
    (tmp_path / "banned_words.txt").write_text("says\n")
    (tmp_path / "exceptions.txt").write_text("other.md: says: a quotation\n")
    monkeypatch.setattr(style, "HERE", tmp_path)
    monkeypatch.setattr(style, "REPOSITORY", tmp_path)
    monkeypatch.setattr(style, "tracked_files", lambda paths: ["page.md"])
    assert style.main([]) == 1
    printed = capsys.readouterr().out
    assert 'page.md:1: "says"' in printed
    assert "other.md: says: matches nothing" in printed
    (tmp_path / "exceptions.txt").write_text("page.md: says: a quotation\n")
    assert style.main([]) == 0
