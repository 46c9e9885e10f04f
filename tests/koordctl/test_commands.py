"""The command line of koordctl in the image of the manager, which lacks numpy, the agent and the scheduler plugin."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("api_types", "apiserver_client", "component_base", "fleet", "koordctl", "manager")
WITHOUT_NUMPY = (
    "import sys; sys.modules['numpy'] = None; import runpy; runpy.run_module('koordctl', run_name='__main__')"
)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Make a folder with the packages of the image."""
    folder = tmp_path_factory.mktemp("image")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def koordctl(image, *words):
    command = [sys.executable, "-P", "-c", WITHOUT_NUMPY, *words]
    return subprocess.run(
        command, check=False, env={"PYTHONPATH": str(image)}, cwd=image, capture_output=True, text=True
    )


def test_a_command_that_needs_more_than_the_image_has_says_so(image):
    ran = koordctl(image, "backtest", "--prometheus", "http://127.0.0.1:1", "whatever")
    assert ran.returncode == 3
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.startswith("koordctl backtest is not in this image: it needs ")


def test_every_other_command_is_there(image):
    ran = koordctl(image, "check", "--kubeconfig", "none")
    assert ran.returncode == 3
    assert "not in this image" not in ran.stderr
    assert koordctl(image, "--help").returncode == 0
