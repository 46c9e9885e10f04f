"""The benchmark pages: each names the commit of its figures, and an old one is warned of; the list of programs."""

import importlib.util
import re
import subprocess

import pytest

from benchmarks import pages

ROOT = pages.REPOSITORY
TEXT = """# Load watcher

<!-- figures: below `Printed` written by make bench-pages -->
The tables are those of commit `{}`.
<!-- end -->
"""
BENCH, OTHER = "benchmarks.bench", "benchmarks.other_bench --days 2"


def test_every_page_is_listed():
    assert {path.stem for path in (ROOT / pages.DOCS).glob("*.md")} - {"index"} == set(pages.PAGES)


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_names_its_commit_programs_that_exist_and_code_that_exists(name):
    text = (ROOT / pages.DOCS / f"{name}.md").read_text(encoding="utf-8")
    by_hand, printed = pages.commits_of(text)
    assert by_hand or printed
    assert pages.with_printed(text, "\n### Printed\n\nx\n").endswith("x\n<!-- end -->\n")
    for command in (*pages.PAGES[name].commands, *pages.PAGES[name].more):
        assert importlib.util.find_spec(command.split()[0])
    assert [path for path in pages.PAGES[name].code if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_with_tables_written_by_hand_names_their_commit(name):
    text = (ROOT / pages.DOCS / f"{name}.md").read_text(encoding="utf-8")
    by_hand = pages.with_printed(text, "")
    assert "\n|---" not in by_hand or pages.commits_of(text)[0]


def test_every_benchmark_is_one_of_a_page():
    named = {pages.program(each) for page in pages.PAGES.values() for each in (*page.commands, *page.more)}
    of_a_decision = {"bench_watch"}  # its figures stay as they were then
    assert {path.stem for path in (ROOT / "benchmarks").glob("bench_*.py")} == {
        each for each in named if each.startswith("bench_")
    } | of_a_decision


def test_all_pages_run_without_what_takes_long_and_a_name_is_a_page_or_a_program():
    usual = pages.commands_of([])
    assert "mid-beside-prod" not in usual
    assert usual["manager-cost"] == ["benchmarks.bench_manager", "benchmarks.bench_manager_loop"]
    assert pages.commands_of(["manager-cost"])["manager-cost"] == [
        *usual["manager-cost"],
        "benchmarks.bench_admission",
        "benchmarks.bench_workload_history",
    ]
    assert pages.commands_of(["bench_admission", "fleet"]) == {
        "manager-cost": ["benchmarks.bench_admission"],
        "fleet": ["benchmarks.fleet --pictures docs/benchmarks"],
    }
    with pytest.raises(ValueError, match="bench_none"):
        pages.commands_of(["bench_none"])


def test_other_output_replaces_the_last_and_the_commits_are_told_apart():
    text = TEXT.format("a" * 8)
    once = pages.with_printed(text, f"\n### Printed\n\nAt commit `{'b' * 8}`: 1\n")
    assert (pages.commits_of(text), pages.commits_of(once)) == ((["a" * 8], []), (["a" * 8], ["b" * 8]))
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
    for code in ("measured.py", "other.py", "benchmarks/bench.py", "benchmarks/other_bench.py"):
        (tmp_path / code).write_text("print(1)\n")
    monkeypatch.setattr(pages, "PAGES", {"cost": pages.Page((BENCH,), ("measured.py",), more=(OTHER,))})
    git("add", ".")
    git("commit", "--message=first")
    page = tmp_path / pages.DOCS / "cost.md"
    page.write_text(TEXT.format(git("rev-parse", "--short=8", "HEAD")))
    return tmp_path, git, page


def test_a_page_is_old_once_its_code_has_changed_until_output_and_tables_are_new(repository):
    root, git, page = repository
    (root / "other.py").write_text("print(2)\n")
    git("commit", "--all", "--message=other")
    assert pages.warning("cost", root) == ""
    (root / "measured.py").write_text("print(2)\n")
    with pytest.raises(RuntimeError, match=r"commit first: measured.py"):
        pages.refresh("cost", [BENCH], root)
    git("commit", "--all", "--message=measured")
    by_hand = "1 commits have changed what it measures since .*; make bench-pages PAGES=cost, then write its tables and"
    assert re.search(by_hand, pages.warning("cost", root))
    pages.refresh("cost", [BENCH], root)
    assert "$ python -m benchmarks.bench\n1\n```" in page.read_text()
    assert re.search(by_hand, pages.warning("cost", root))  # the tables are as old as before
    printed = page.read_text()
    page.write_text(re.sub("those of commit `[0-9a-f]+`", f"those of commit `{git('rev-parse', 'HEAD')}`", printed))
    assert pages.warning("cost", root) == ""


def test_output_that_is_older_than_the_tables_makes_a_page_old(repository):
    root, git, page = repository
    pages.refresh("cost", [BENCH], root)
    (root / "measured.py").write_text("print(2)\n")
    git("commit", "--all", "--message=measured")
    text = page.read_text()
    page.write_text(re.sub("those of commit `[0-9a-f]+`", f"those of commit `{git('rev-parse', 'HEAD')}`", text))
    assert pages.warning("cost", root).endswith("; make bench-pages PAGES=cost")


def test_a_program_alone_replaces_its_own_output_and_keeps_that_of_the_others(repository):
    root, git, page = repository
    pages.refresh("cost", [OTHER], root)
    old = git("rev-parse", "--short=8", "HEAD")
    (root / "benchmarks" / "bench.py").write_text("print('a\\n\\nb')\n")
    git("commit", "--all", "--message=bench")
    new = git("rev-parse", "--short=8", "HEAD")
    for _ in range(2):
        pages.refresh("cost", [BENCH], root)
        text = page.read_text()
        assert pages.commits_of(text)[1] == [new, old]
        assert re.findall(r"```text\n(.*?)\n```", text, re.DOTALL) == [
            f"$ python -m {BENCH}\na\n\nb",
            f"$ python -m {OTHER}\n1",
        ]


def test_a_commit_that_the_clone_lacks_is_named(repository):
    root, _, page = repository
    page.write_text(TEXT.format("0" * 8))
    assert "is not in this clone" in pages.warning("cost", root)


def test_further_arguments_are_passed_to_the_commands_and_printed(repository):
    root, git, page = repository
    (root / "benchmarks" / "bench.py").write_text("import sys; print(sys.argv[1:])\n")
    git("commit", "--all", "--message=arguments")
    pages.refresh("cost", [BENCH], root, more="--nodes 5 7")
    assert "$ python -m benchmarks.bench --nodes 5 7\n['--nodes', '5', '7']\n```" in page.read_text()


def test_a_command_that_fails_shows_its_errors_and_leaves_the_page(repository, capfd):
    root, git, page = repository
    (root / "benchmarks" / "bench.py").write_text("raise SystemExit('no data')\n")
    git("commit", "--all", "--message=broken")
    before = page.read_text()
    with pytest.raises(RuntimeError, match=r"bench`: exit 1, want 0"):
        pages.refresh("cost", [BENCH], root)
    assert "no data" in capfd.readouterr().err
    assert page.read_text() == before


def test_every_program_and_module_is_listed_and_exists():
    folder = ROOT / "benchmarks"
    cells = set(re.findall(r"^\| (.+?) \|", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    names = {name.rstrip("/") for cell in cells for name in re.findall("`([a-z_/]+)`", cell)}
    programs = {"compare", "product_cost"}
    assert names | programs == {path.stem for path in folder.iterdir() if path.suffix == ".py"} | {"backtest"}
