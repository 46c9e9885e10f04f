"""The files of npm: pinned by version and hash, with their licenses, and only of the lock file that is installed."""

import json
import re
import shutil

import pytest

from console.web import front_end

pytestmark = pytest.mark.slow

PACKAGES = json.loads(front_end.LOCK.read_text())["packages"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return the folder of an image, with the lock file and a stand-in for each file."""
    monkeypatch.setattr(front_end, "_IN_IMAGE", tmp_path)
    monkeypatch.setattr(front_end, "_IN_CHECKOUT", tmp_path / "none")
    shutil.copy(front_end.LOCK, tmp_path)
    for package in PACKAGES:
        for name in package["files"].values():
            (tmp_path / name).write_text(package["name"])
    return tmp_path


@pytest.mark.parametrize("package", PACKAGES, ids=lambda each: each["name"])
def test_a_package_is_pinned_and_comes_with_its_license(package):
    assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
    assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", package["integrity"])
    assert not package["shipped"] or "LICENSE" in package["files"]


def test_the_shipped_files_are_served_and_no_other(installed):
    found = front_end.load.__wrapped__()
    assert found["htmx.min.js"] == ("text/javascript; charset=utf-8", b"htmx.org")
    assert found["uplot-license.txt"].content_type == "text/plain; charset=utf-8"
    assert "koord.css" in found
    assert "axe.min.js" not in found
    assert front_end.LOCK.name not in found


def test_files_of_another_lock_file_are_not_used(installed):
    (installed / front_end.LOCK.name).write_text("{}")
    assert front_end.folder_of_npm() is None
    assert "htmx.min.js" not in front_end.load.__wrapped__()
