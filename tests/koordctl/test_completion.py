"""Completion: commands, flags, values, names of the cluster; the script of bash in a real bash."""

import subprocess
import sys
from pathlib import Path

import pytest

from koordctl import __main__ as koordctl
from koordctl import completion
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def complete(monkeypatch, capsys):
    """Return a function that completes the words as kubectl asks for them."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["kubectl_complete-koord", *words])
        assert completion.kubectl() == 0
        *names, directive = capsys.readouterr().out.splitlines()
        return names, directive

    return run


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sta"], ["status"]),
        (["explain", ""], ["node", "pod", "config"]),
        (["top", "na"], ["namespaces"]),
        (["top", "nodes", "--out"], ["--output"]),
        (["top", "nodes", "-o", "c"], ["csv"]),
        (["top", "nodes", "--sort", "u"], ["used", "used:desc"]),
        (["top", "pods", "--sort", "sl"], ["slack", "slack:desc"]),
        (["top", "nodes", "--output=j"], ["json"]),
        (["top", "-w", "pods", "-o", "w"], ["wide"]),
        (["explain", "node", "n1", ""], []),
        (["top", "nodes", "--no-headers", ""], []),
        (["config", "diff", "--preset", "bal"], ["balanced"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        ([""], ["status", "top", "gain", "console"]),
    ],
)
def test_commands_flags_and_values_are_completed(complete, words, found):
    seen, directive = complete(*words)
    assert seen[: len(found)] == found if words == [""] else seen == found
    assert directive == ":4"


def test_a_file_is_completed_by_the_shell(complete):
    assert complete("config", "check", "") == ([], ":0")
    assert complete("status", "--kubeconfig", "") == ([], ":0")
    assert complete("config", "diff", "--selector=pool=a", "") == ([], ":0")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["explain", "node", "wor"], ["worker-1", "worker-2"]),
        (["top", "pods", "--node", ""], ["worker-1", "worker-2"]),
        (["top", "pods", "-n", ""], ["shop"]),
        (["explain", "pod", "-n", "shop", ""], ["web-0"]),
        (["explain", "pod", "s"], ["shop/"]),
        (["explain", "pod", "shop/w"], ["shop/web-0"]),
    ],
)
def test_names_are_read_from_the_cluster_that_the_flags_name(complete, words, found, tmp_path):
    hostile = cluster.node("$(reboot)"), cluster.node("-rf"), cluster.node("a b"), cluster.node("wor`id`")
    nodes = cluster.listing(cluster.node(), cluster.node("worker-2"), *hostile)
    routes = healthy(nodes=nodes) | {"/api/v1/namespaces": cluster.listing({"metadata": {"name": "shop"}})}
    with kubeconfig_of(tmp_path, **routes) as file:
        command, kind, *rest = words
        assert complete(command, kind, "--kubeconfig", str(file), *rest) == (found, ":4")


def test_without_a_cluster_there_are_no_names_and_no_error(complete, tmp_path):
    assert complete("explain", "node", "--kubeconfig", str(tmp_path / "none"), "") == ([], ":4")
    with kubeconfig_of(tmp_path) as file:
        assert complete("explain", "node", "--kubeconfig", str(file), "") == ([], ":4")


@pytest.mark.parametrize(
    ("words", "found"), [("explain no", "node"), ("top nodes --output=js", "json"), ("top no", "nodes")]
)
def test_the_script_of_bash_completes_in_bash(words, found, tmp_path):
    program = tmp_path / "koordctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m koordctl "$@"\n')
    program.chmod(0o755)
    script = f"""
        PATH={tmp_path}:$PATH
        source <(koordctl completion bash)
        COMP_WORDS=(koordctl {words.replace("=", " = ")})
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        compopt() {{ :; }}
        _koordctl_completion koordctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ended = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True)
    assert ended.stdout.split() == [found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_calls_the_program(shell, capsys):
    assert koordctl.main(["completion", shell]) == 0
    assert f"_KOORDCTL_COMPLETE={shell}_complete" in capsys.readouterr().out
