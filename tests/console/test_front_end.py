"""The files of npm: pinned by version and hash, with their licenses, and only of the lock file that is installed."""

import json
import re
import shutil

import pytest

from console.web import app

pytestmark = pytest.mark.slow

PACKAGES = json.loads(app.LOCK.read_text())["packages"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return the folder of an image, with the lock file and a stand-in for each file."""
    monkeypatch.setattr(app, "_IN_IMAGE", tmp_path)
    monkeypatch.setattr(app, "_IN_CHECKOUT", tmp_path / "none")
    shutil.copy(app.LOCK, tmp_path)
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
    found = app.front_end_files.__wrapped__()
    assert found["htmx.min.js"] == ("text/javascript; charset=utf-8", b"htmx.org")
    assert found["uplot-license.txt"].content_type == "text/plain; charset=utf-8"
    assert "koord.css" in found
    assert "axe.min.js" not in found
    assert app.LOCK.name not in found


def test_files_of_another_lock_file_are_not_used(installed):
    (installed / app.LOCK.name).write_text("{}")
    assert app.folder_of_npm() is None
    assert "htmx.min.js" not in app.front_end_files.__wrapped__()
