"""The workflows: least permissions, pinned major versions, make targets that exist."""

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def workflow(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_only_unless_a_job_states_more(path):
    assert workflow(path)["permissions"] == {"contents": "read"}
    for name, job in workflow(path)["jobs"].items():
        takes_hours = any("make e2e-long" in step.get("run", "") for step in job["steps"])
        assert job["timeout-minutes"] <= (350 if takes_hours else 120)
        release = {"contents": "write", "id-token": "write"}  # the second for signatures without a key
        assert job.get("permissions", {}) == (release if name == "release" else {})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_has_a_major_version(path):
    for job in workflow(path)["jobs"].values():
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v0"))


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, ROOT / ".pre-commit-config.yaml"], ids=lambda path: path.name.removesuffix(".yml")
)
def test_every_make_target_exists(path):
    lines = re.findall(r"(?:run:|entry:|^ +)\s*make ([a-z0-9 -]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    called = {target for line in lines for target in line.split()}
    assert called
    assert called <= TARGETS


def test_expressions_reach_a_shell_only_as_environment_variables():
    for path in WORKFLOWS:
        for job in workflow(path)["jobs"].values():
            for step in job["steps"]:
                assert "${{" not in step.get("run", "")


def test_secrets_are_given_to_single_steps_only():
    for path in WORKFLOWS:
        for job in workflow(path)["jobs"].values():
            assert "secrets." not in str({key: value for key, value in job.items() if key != "steps"})


def test_the_long_cases_run_every_week_and_after_no_push():
    found = workflow(ROOT / ".github" / "workflows" / "e2e.yml")
    jobs = [job for job in found["jobs"].values() if any("make e2e-long" in str(step) for step in job["steps"])]
    assert [job["if"] for job in jobs] == ["github.event_name != 'push'"]
    assert found[True]["schedule"]  # `on`, which YAML reads as a boolean
