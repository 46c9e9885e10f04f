"""Check texts with a configuration of the extender, without a cluster. Pure.

A text contains a profile with the extender's plugins, a whole KubeSchedulerConfiguration, or a ConfigMap with either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from api_types.colocation import problem as config_problem
from api_types.kubernetes import yaml_text
from scheduler_plugin.config import kube_scheduler, loader
from scheduler_plugin.config.loader import InvalidConfiguration
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.trimaran.target_load_packing import TargetLoadPacking

_LEAST_USED: Final = (
    "plugins.score: LoadAwareScheduling scores beside TargetLoadPacking, want it in plugins.score.disabled: it prefers "
    "the least used node"
)
_WORDS: Final = frozenset((kube_scheduler.KIND, "profiles", "extenders", "plugins", "pluginConfig"))
"""Words of which a configuration has one."""
_KINDS: Final = ("", kube_scheduler.KIND)


class NotADocument(Exception):
    """The text contains no configuration."""


class DocumentResult(NamedTuple):
    """Result of checking one document."""

    problems: list[str]
    advice: list[str]
    effective: dict[str, Any] | None
    """None if the document is refused."""
    packs: bool = False
    """Whether TargetLoadPacking scores."""


def documents(text: str) -> list[tuple[str, Any]]:
    """Extract the configurations of a text, each with its place, "" if it is the whole text. Raises NotADocument.

    Other objects of a manifest are recognised by their kind and left alone. Of the texts in ConfigMaps, those with a
    word of a configuration are checked, or all if none has one.
    """
    candidates: list[tuple[str, Any]] = []
    for content in _contents(text):
        if _kind(content) == "ConfigMap":
            data = content.get("data") or {}
            if not isinstance(data, dict):
                raise NotADocument(f"is a ConfigMap with data that is {type(data).__name__}, want an object of strings")
            for key, inner in data.items():
                candidates += [(f"data[{key}]", item) for item in _stored(str(inner))]
        elif _kind(content) in _KINDS:
            candidates.append(("", content))
    if not candidates:
        raise NotADocument("has no configuration: want pluginConfig, plugins or profiles, or a ConfigMap with one")
    return [(where, content) for where, content in candidates if not where or _has_word(content)] or candidates


def _stored(text: str) -> list[Any]:
    """Return the contents of a text in a ConfigMap that may be a configuration. Raises NotADocument."""
    try:
        return [content for content in _contents(text) if _kind(content) in _KINDS]
    except NotADocument:
        if any(word in text for word in _WORDS):
            raise
        return []


def _contents(text: str) -> Iterator[Any]:
    """Yield the objects of a text, those of a List one by one. Raises NotADocument."""
    try:
        yield from (loader.as_json(content) for content in yaml_text.load_items(text) if content is not None)
    except yaml.YAMLError as error:
        raise NotADocument(f"is not YAML: {error}") from error


def _has_word(content: Any) -> bool:
    return isinstance(content, dict) and (_kind(content) == kube_scheduler.KIND or not _WORDS.isdisjoint(content))


def _kind(content: Any) -> str:
    return str(content.get("kind") or "") if isinstance(content, dict) else ""


def check_document(content: Any) -> DocumentResult:
    """Check one document."""
    content = loader.as_json(content)
    problems: list[str] = []
    advice: list[str] = []
    if kube_scheduler.is_configuration(content):
        for problem in kube_scheduler.problems(content):
            is_advice = problem.effect is config_problem.Effect.ADVICE
            (advice if is_advice else problems).append(str(problem))
    try:
        configurations = loader.parse_all(content)
    except InvalidConfiguration as error:
        return DocumentResult([*problems, *error.problems], advice, None)
    several = configurations.values()
    if kube_scheduler.is_configuration(content) and not any(one.filters for one in several):
        advice += map(str, kube_scheduler.needless_filter_calls(content))
    packing = [one for one in several if TargetLoadPacking.name in one.score_weights]
    if packing:
        advice += map(str, kube_scheduler.spreading(content))
        if any(LoadAware.name in one.score_weights for one in packing):
            advice.append(_LEAST_USED)
    return DocumentResult(
        problems, advice, None if problems else loader.effective_document(configurations), bool(packing)
    )


class CheckedDocument(NamedTuple):
    """A document of a text, and the result of its check."""

    where: str
    content: Any
    result: DocumentResult


def check(text: str) -> list[CheckedDocument]:
    """Check the documents of a text. Raises NotADocument."""
    checked = [CheckedDocument(where, content, check_document(content)) for where, content in documents(text)]
    packs = any(document.result.packs for document in checked)
    for document in checked:
        if packs and not document.result.packs:
            document.result.advice.extend(map(str, kube_scheduler.spreading(document.content)))
    return checked
