"""Validate the extender's configuration without a cluster: command `check-config FILE`.

FILE contains a profile with the extender's plugins, a whole KubeSchedulerConfiguration, or a ConfigMap with either.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from api_types.colocation import problem as config_problem
from api_types.kubernetes import yaml_text
from scheduler_plugin.config import kube_scheduler, loader
from scheduler_plugin.config.loader import InvalidConfiguration
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.trimaran.target_load_packing import TargetLoadPacking

FINE: Final = 0
REFUSED: Final = 1
UNREADABLE: Final = 2
_LEAST_USED: Final = (
    "plugins.score: LoadAwareScheduling scores beside TargetLoadPacking, want it in plugins.score.disabled: it prefers "
    "the least used node"
)


class NotADocument(Exception):
    """The file cannot be read, or contains no configuration."""


UNREADABLE_FILE: Final = (OSError, UnicodeDecodeError, NotADocument)


class Document(NamedTuple):
    """A document to check, and its place in the file ("" if it is the whole file)."""

    where: str
    content: Any


class CheckResult(NamedTuple):
    """Result of checking one document."""

    problems: list[str]
    advice: list[str]
    effective: dict[str, Any] | None
    """None if the document is refused."""
    packs: bool = False
    """Whether TargetLoadPacking scores."""


def documents(text: str) -> list[Document]:
    """Extract the documents of a file. Raises NotADocument."""
    try:
        contents = [loader.as_json(each) for each in yaml_text.load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise NotADocument(f"is not YAML: {error}") from error
    except RecursionError as error:
        raise NotADocument(loader.TOO_DEEP) from error
    found = [inner for content in contents for inner in _inside(content)]
    if not found:
        raise NotADocument("has no configuration: want pluginConfig, plugins or profiles, or a ConfigMap with one")
    return found


def _inside(content: Any) -> Iterator[Document]:
    if not isinstance(content, dict) or content.get("kind") != "ConfigMap":
        yield Document("", content)
        return
    data = content.get("data") or {}
    if not isinstance(data, dict):
        raise NotADocument(f"is a ConfigMap with data {config_problem.quoted(data)}, want an object of strings")
    for key, text in data.items():
        for found in documents(str(text)):
            yield Document(f"data[{key}]", found.content)


def check_document(content: Any) -> CheckResult:
    """Check one document."""
    content = loader.as_json(content)
    problems: list[str] = []
    advice: list[str] = []
    if kube_scheduler.is_configuration(content):
        for problem in kube_scheduler.problems(content):
            is_advice = problem.effect is config_problem.Effect.ADVICE
            (advice if is_advice else problems).append(str(problem))
    try:
        configuration = loader.parse(content)
    except InvalidConfiguration as error:
        return CheckResult([*problems, *error.problems], advice, None)
    if kube_scheduler.is_configuration(content) and not configuration.filters:
        advice += map(str, kube_scheduler.needless_filter_calls(content))
    packs = TargetLoadPacking.name in configuration.score_weights
    if packs:
        advice += map(str, kube_scheduler.spreading(content))
        if LoadAware.name in configuration.score_weights:
            advice.append(_LEAST_USED)
    return CheckResult(problems, advice, None if problems else configuration.document(), packs)


class Checked(NamedTuple):
    """A document of a file, and the result of its check."""

    where: str
    content: Any
    result: CheckResult


def checked(file: str) -> list[Checked]:
    """Check the documents of a file ("-" is standard input). Raises the exceptions of UNREADABLE_FILE."""
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    found = [Checked(where, content, check_document(content)) for where, content in documents(text)]
    packs = any(each.result.packs for each in found)
    for each in found:
        if packs and not each.result.packs:
            each.result.advice.extend(map(str, kube_scheduler.spreading(each.content)))
    return found


def check(file: str) -> int:
    """Print the problems of a file ("-" is standard input), else its effective form; return the exit code."""
    try:
        found = checked(file)
    except UNREADABLE_FILE as error:
        sys.stderr.write(f"{file}: {error}\n")
        return UNREADABLE
    is_refused = False
    for where, content, result in found:
        place = f"{file} {where}".rstrip()
        sys.stderr.writelines(f"{place}: {problem}\n" for problem in result.problems)
        sys.stderr.writelines(f"{place}: advice: {line}\n" for line in result.advice)
        is_refused = is_refused or result.effective is None
        is_for_kube_scheduler = kube_scheduler.is_configuration(content) and not loader.names_plugins(content)
        if result.effective is not None and not is_for_kube_scheduler:
            sys.stdout.write(f"# {place} is valid; effective configuration, with every default:\n")
            sys.stdout.write(yaml_text.dump(result.effective))
    return REFUSED if is_refused else FINE
