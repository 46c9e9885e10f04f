"""The version has one place, and everything that names it agrees."""

import re
import tomllib

import pytest
import yaml

from tools.release import version
from tools.release.version import REPOSITORY

CHART_YAML = (version.CHART / "Chart.yaml").read_text(encoding="utf-8")
VERSION = version.app_version(CHART_YAML)


def test_pyproject_reads_the_version_from_the_chart():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    source = project["tool"]["hatch"]["version"]
    found = re.search(source["pattern"], (REPOSITORY / source["path"]).read_text(encoding="utf-8"), re.MULTILINE)
    assert "version" in project["project"]["dynamic"]
    assert "version" not in project["project"]
    assert found
    assert found["version"] == VERSION


def test_chart_and_programs_have_the_same_version():
    chart = yaml.safe_load(CHART_YAML)
    assert chart["version"] == chart["appVersion"] == VERSION


def test_no_page_names_another_version_of_the_images_or_the_chart():
    examples = [path for path in (REPOSITORY / "examples").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *examples]
    named = {
        (page.name, found)
        for page in pages
        for found in re.findall(
            r"(?:\$part|koordlet|manager|scheduler-plugin|koord-suite)[:-]v?(\d+\.\d+\.\d+(?:-rc\.\d+)?)",
            page.read_text(encoding="utf-8"),
        )
    }
    assert {each for each in named if each[1] != VERSION} == set()


def test_the_changelog_starts_with_unreleased_changes():
    headings = re.findall(r"^## (.*)$", version.CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2.4", "v1.2.3-rc.1"])
def test_rejects_a_tag_that_is_not_the_version(tag):
    with pytest.raises(version.ReleaseProblem, match=r"want v1\.2\.3"):
        version.check_tag(tag, "1.2.3")


def test_rejects_a_chart_without_a_semantic_version():
    with pytest.raises(version.ReleaseProblem, match="appVersion"):
        version.app_version("appVersion: latest\n")


def test_release_notes_are_the_section_of_the_version():
    sections = [
        "# Changelog",
        "## [Unreleased]",
        "## [1.2.3] - 2026-01-02",
        "### Added",
        "- x",
        "## [1.2.2] - 2025-01-02",
    ]
    changelog = "\n\n".join(sections)
    assert version.release_notes(changelog, "1.2.3") == "### Added\n\n- x\n"
    with pytest.raises(version.ReleaseProblem, match=r"\[1\.2\.4\]"):
        version.release_notes(changelog, "1.2.4")
