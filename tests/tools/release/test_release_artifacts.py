"""Commands of a release, and their results. Docker is a script that records its calls."""

import os
import subprocess

import pytest
import yaml

from tools.localcluster import go_binaries
from tools.release import __main__ as program
from tools.release import steps
from tools.release.version import CHART, REPOSITORY, app_version

VERSION = app_version((CHART / "Chart.yaml").read_text(encoding="utf-8"))


def test_a_dry_run_prints_every_command_and_runs_none(capsys):
    assert program.main(["--registry", "registry.example/team", "--push", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    for name in steps.IMAGES:
        assert f"docker build --target {name} --tag registry.example/team/{name}:{VERSION} ." in printed
        assert f"docker push registry.example/team/{name}:{VERSION}" in printed
    for minor in go_binaries.plugin_builds():
        image = f"registry.example/team/koord-scheduler:{VERSION}-1.{minor}"
        assert f"--tag {image} dist/kube-scheduler/1.{minor}" in printed
        assert f"docker push {image}" in printed
    assert f"helm push dist/release/koord-suite-{VERSION}.tgz oci://registry.example/team/charts" in printed
    assert "SHA256SUMS" in printed


def test_nothing_is_pushed_unless_requested(capsys):
    assert program.main(["--registry", "registry.example/team", "--dry-run"]) == 0
    assert " push " not in capsys.readouterr().out


def test_rejects_a_registry_with_a_scheme(capsys):
    assert program.main(["--registry", "https://registry.example", "--dry-run"]) == 1
    assert "want HOST/PATH" in capsys.readouterr().err


def test_every_image_is_a_target_of_the_dockerfile():
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    for name in steps.IMAGES:
        assert f" AS {name}\n" in dockerfile


def test_the_released_chart_uses_the_images_of_the_registry(tmp_path):
    home = "https://git.example/team/koord-suite"
    steps.copy_chart(CHART, tmp_path / "chart", "registry.example/team", home)
    described = yaml.safe_load((tmp_path / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
    assert (described["home"], described["sources"]) == (home, [home])
    values = yaml.safe_load((tmp_path / "chart" / "values.yaml").read_text(encoding="utf-8"))
    assert values["global"]["imageRegistry"] == "registry.example/team"
    assert {values[part]["image"]["repository"] for part in ("koordlet", "manager", "scheduler", "loadWatcher")} == {""}


def test_a_failing_command_stops_the_release(tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$@" > {calls}\nexit 3\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(program.ReleaseProblem, match="exit 3"):
        program.run(steps.Step(("docker", "push", "registry.example/koordlet:1")), dry_run=False)
    assert calls.read_text() == "push registry.example/koordlet:1\n"


def test_checksums_list_every_file_but_their_own(tmp_path):
    (tmp_path / "a.tgz").write_text("a")
    (tmp_path / "SHA256SUMS").write_text("old")
    step = steps.checksums(tmp_path)
    printed = subprocess.run(step.argv, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in printed.splitlines()] == ["a.tgz"]
