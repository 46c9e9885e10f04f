"""The benchmark pages: each names the commit of its figures, and an old one is warned of."""

import importlib.util
import subprocess

import pytest

from benchmarks import pages

ROOT = pages.REPOSITORY
TEXT = """# Load watcher

<!-- figures: below `Printed` written by make bench-pages -->
The tables are those of commit `{}`.
<!-- end -->
"""


def test_every_page_is_listed():
    assert {path.stem for path in (ROOT / pages.DOCS).glob("*.md")} - {"index"} == set(pages.PAGES)


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_names_its_commit_programs_that_exist_and_code_that_exists(name):
    text = (ROOT / pages.DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert pages.measured_at(text)
    assert pages.with_printed(text, "\n### Printed\n\nx\n").endswith("x\n<!-- end -->\n")
    for command in pages.PAGES[name].commands:
        assert importlib.util.find_spec(command.split()[0])
    assert [path for path in pages.PAGES[name].code if not (ROOT / path).exists()] == []


def test_other_output_replaces_the_last_and_the_commit_is_its_own():
    text = TEXT.format("a" * 8)
    once = pages.with_printed(text, f"\n### Printed\n\nAt commit `{'b' * 8}`: 1\n")
    assert (pages.measured_at(text), pages.measured_at(once)) == ("a" * 8, "b" * 8)
    again = pages.with_printed(once, f"\n### Printed\n\nAt commit `{'c' * 8}`: 2\n")
    assert again == pages.with_printed(text, f"\n### Printed\n\nAt commit `{'c' * 8}`: 2\n")
    with pytest.raises(ValueError, match="want one"):
        pages.with_printed("# no section", "")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init")
    (tmp_path / pages.DOCS).mkdir(parents=True)
    (tmp_path / "benchmarks").mkdir()
    for code in (tmp_path / "measured.py", tmp_path / "other.py", tmp_path / "benchmarks" / "bench.py"):
        code.write_text("print(1)\n")
    monkeypatch.setattr(pages, "PAGES", {"cost": pages.Page(("benchmarks.bench",), ("measured.py",))})
    git("add", ".")
    git("commit", "--message=first")
    page = tmp_path / pages.DOCS / "cost.md"
    page.write_text(TEXT.format(git("rev-parse", "--short=8", "HEAD")))
    return tmp_path, git, page


def test_a_page_is_old_once_its_code_has_changed_and_no_longer_after_a_refresh(repository):
    root, git, page = repository
    (root / "other.py").write_text("print(2)\n")
    git("commit", "--all", "--message=other")
    assert pages.warning("cost", root) == ""
    (root / "measured.py").write_text("print(2)\n")
    with pytest.raises(RuntimeError, match=r"commit first: measured.py"):
        pages.refresh("cost", root)
    git("commit", "--all", "--message=measured")
    assert "1 commits have changed what it measures" in pages.warning("cost", root)
    pages.refresh("cost", root)
    assert "$ python -m benchmarks.bench\n1\n```" in page.read_text()
    assert pages.warning("cost", root) == ""


def test_a_commit_that_the_clone_lacks_is_named(repository):
    root, _, page = repository
    page.write_text(TEXT.format("0" * 8))
    assert "is not in this clone" in pages.warning("cost", root)


def test_further_arguments_are_passed_to_the_commands_and_printed(repository):
    root, git, page = repository
    (root / "benchmarks" / "bench.py").write_text("import sys; print(sys.argv[1:])\n")
    git("commit", "--all", "--message=arguments")
    pages.refresh("cost", root, more="--nodes 5 7")
    assert "$ python -m benchmarks.bench --nodes 5 7\n['--nodes', '5', '7']\n```" in page.read_text()


def test_a_command_that_fails_shows_its_errors_and_leaves_the_page(repository, capfd):
    root, git, page = repository
    (root / "benchmarks" / "bench.py").write_text("raise SystemExit('no data')\n")
    git("commit", "--all", "--message=broken")
    before = page.read_text()
    with pytest.raises(RuntimeError, match=r"bench`: exit 1, want 0"):
        pages.refresh("cost", root)
    assert "no data" in capfd.readouterr().err
    assert page.read_text() == before
