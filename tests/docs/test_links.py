"""Links of the pages outside of the site, and what pages, code and chart refer to by path."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("*.md", "benchmarks/*.md", "charts/**/*.md", "e2e/**/*.md", "examples/*.md", "tools/**/*.md")
OUTSIDE_THE_SITE = sorted(path for folder in FOLDERS for path in ROOT.glob(folder))
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)")
PAGE = re.compile(r"(?<![\w/])docs/[\w/-]+\.(?:md|svg|py)\b")
GONE = re.compile(
    r"\bdesign [0-9]|\bkoordinator-(?:core|loadaware)\b(?!-\d|\.json)|\breference trimaran\b|\bagent-cost [0-9]"
    r"|\bdeadlines section\b|\bcodebase decision\b|\bissue [0-9]{1,2}\b"
)


def tracked():
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("no git repository")
    paths = (ROOT / name for name in run.stdout.split("\0") if name and not name.endswith((".svg", ".json", ".gz")))
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def texts():
    for path in tracked():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", OUTSIDE_THE_SITE, ids=lambda page: page.parent.name + "/" + page.name)
def test_every_link_outside_the_site_leads_to_a_file_and_a_section(page):
    for file, section in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not section or section in anchors(target), (file, section)


def test_every_page_that_any_file_refers_to_by_its_path_exists():
    dead = {
        f"{path.relative_to(ROOT)}: {named}"
        for path, text in texts()
        for named in PAGE.findall(text)
        if not (ROOT / named).exists()
    }
    assert dead == set()


def test_no_file_cites_a_document_outside_the_repository():
    cited = {f"{path.relative_to(ROOT)}: {found.group()}" for path, text in texts() for found in GONE.finditer(text)}
    assert cited == set()


def test_every_page_of_the_site_is_in_its_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages == set(re.findall(r"[\w/-]+\.md", navigation))
