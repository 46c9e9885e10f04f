"""Validate kube-scheduler's own configuration, as far as it concerns the extender. Pure.

kube-scheduler validates the rest itself when it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api_types.colocation import problem as config_problem
from api_types.colocation.problem import Effect, KeyPath, Problem
from api_types.kubernetes import times

KIND: Final = "KubeSchedulerConfiguration"
_VERBS: Final = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}
PLUGIN: Final = "KoordSuite"
"""Name of the plugin inside kube-scheduler that asks this process."""
_PORT: Final = ":10261"
"""Default port of this extender, by which it is recognised beside others."""
_LONGEST_TIMEOUT_NANOS: Final = 10**9
_DEFAULT_WEIGHTS: Final = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""Score plugins of kube-scheduler's default profile."""
_SECRET_WORDS: Final = ("token", "tokn", "key", "secret", "password", "stringdata", "header")
"""Parts of the keys whose values are never shown, misspelt ones included."""
_SPREADING: Final = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
"""Those that score by requests."""


def problem(path: KeyPath, value: Any, expected: str, effect: Effect = Effect.DOCUMENT_REFUSED) -> Problem:
    """Return the problem of a value, without the secrets in it: problems are logged."""
    return config_problem.problem(path, without_secrets(value, path[-1] if path else ""), expected, effect)


def without_secrets(value: Any, key: object) -> Any:
    """Replace what may be a secret by a text."""
    if value is not None and any(word in str(key).lower() for word in _SECRET_WORDS):
        return "(not shown)"
    if isinstance(value, dict):
        return {name: without_secrets(inner, name) for name, inner in value.items()}
    return [without_secrets(inner, key) for inner in value] if isinstance(value, list) else value


def is_configuration(document: Any) -> bool:
    """Return whether a document is a configuration of kube-scheduler, and not only a profile."""
    if not isinstance(document, dict) or document.get("kind", KIND) != KIND:
        return False
    is_profile = "kind" not in document or not document.keys().isdisjoint({"plugins", "pluginConfig"})
    return not is_profile or "profiles" in document or "extenders" in document


def problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Find the values that keep the extender from working."""
    extenders = document.get("extenders")
    if not isinstance(extenders, list) or not extenders:
        all_plugins = [_member(profile, "plugins") for profile in _items(document.get("profiles"))]
        if not any(PLUGIN in _names(plugins, "multiPoint", "enabled") for plugins in all_plugins):
            want = f"a list with this extender, or {PLUGIN} in plugins.multiPoint.enabled: otherwise it is never called"
            yield problem(("extenders",), extenders, want, Effect.ADVICE)
        return
    for index, extender in enumerate(extenders):
        path: KeyPath = ("extenders", index)
        if not isinstance(extender, dict):
            yield problem(path, extender, "an object")
        elif len(extenders) == 1 or _is_this_one(extender):
            yield from _extender_problems(extender, path)
    if len(extenders) > 1 and not any(isinstance(extender, dict) and _is_this_one(extender) for extender in extenders):
        want = f"one whose urlPrefix ends with {_PORT}, or only this extender: none of several is checked"
        yield problem(("extenders",), [_member(extender, "urlPrefix") for extender in extenders], want, Effect.ADVICE)
    for index, profile in enumerate(_items(document.get("profiles")) or [{}]):
        yield from _weight_problems(profile, ("profiles", index))


def needless_filter_calls(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Find the verbs for which kube-scheduler would wait although no plugin rejects a node."""
    extenders = _items(document.get("extenders"))
    for index, extender in enumerate(extenders):
        if isinstance(extender, dict) and (len(extenders) == 1 or _is_this_one(extender)):
            for key in ("filterVerb", "preemptVerb"):
                if extender.get(key):
                    want = "nothing: no filter plugin is enabled, so that the call rejects no node"
                    yield problem(("extenders", index, key), extender[key], want, Effect.ADVICE)


def spreading(document: Any) -> Iterator[Problem]:
    """Find the scores of kube-scheduler by requests, beside those by load of TargetLoadPacking (KEP-61).

    The default ones spread the pods that it packs; MostAllocated packs them elsewhere.
    """
    for index, profile in enumerate(_items(_member(document, "profiles"))):
        plugins = _member(profile, "plugins")
        enabled, disabled = (
            _names(plugins, "multiPoint", key) | _names(plugins, "score", key) for key in ("enabled", "disabled")
        )
        off = _names(plugins, "score", "disabled")
        spread = [name for name in _SPREADING if name not in off and (name in enabled or not {name, "*"} & disabled)]
        if spread:
            want = f"{' and '.join(spread)} too: by requests they place pods elsewhere than TargetLoadPacking by load"
            path = ("profiles", index, "plugins", "score", "disabled")
            yield problem(path, sorted(off), want, Effect.ADVICE)


def _names(plugins: Any, point: str, key: str) -> set[str]:
    return {str(_member(entry, "name")) for entry in _items(_member(_member(plugins, point), key))}


def _is_this_one(extender: Mapping[str, Any]) -> bool:
    return str(extender.get("urlPrefix")).rstrip("/").endswith(_PORT)


def _extender_problems(extender: Mapping[str, Any], path: KeyPath) -> Iterator[Problem]:
    if not extender.get("urlPrefix"):
        yield problem((*path, "urlPrefix"), extender.get("urlPrefix"), "an address like http://127.0.0.1:10261")
    yield from _verb_problems(extender, path)
    weight = extender.get("weight")
    if extender.get("prioritizeVerb") and not (type(weight) is int and weight > 0):
        yield problem((*path, "weight"), weight, "an integer above 0 beside prioritizeVerb")
    if extender.get("ignorable") is not True:
        want = "true: otherwise no pod is scheduled while the extender is unavailable"
        yield problem((*path, "ignorable"), extender.get("ignorable"), want, Effect.ADVICE)
    if extender.get("nodeCacheCapable") is not True:
        want = "true: the extender refuses calls with whole Node objects"
        yield problem((*path, "nodeCacheCapable"), extender.get("nodeCacheCapable"), want)
    yield from _timeout_problems(extender.get("httpTimeout"), (*path, "httpTimeout"))
    yield from _tls_problems(extender, path)
    for index, resource in enumerate(_items(extender.get("managedResources"))):
        name = resource.get("name") if isinstance(resource, dict) else resource
        if "kubernetes.io/" in str(name):
            want = "a resource outside kubernetes.io, kube-scheduler refuses others; remove managedResources"
            yield problem((*path, "managedResources", index, "name"), name, want)
        else:
            want = "no managedResources: with them the extender is called only for pods that request one of them"
            yield problem((*path, "managedResources", index, "name"), name, want, Effect.ADVICE)


def _verb_problems(extender: Mapping[str, Any], path: KeyPath) -> Iterator[Problem]:
    for key, verb in _VERBS.items():
        if extender.get(key) not in (None, "", verb):
            yield problem((*path, key), extender[key], f"{verb}, or nothing")
    if extender.get("filterVerb") and not extender.get("preemptVerb"):
        want = "preempt beside filterVerb: otherwise pods are evicted from nodes that filter rejects afterwards"
        yield problem((*path, "preemptVerb"), extender.get("preemptVerb"), want)
    if extender.get("bindVerb"):
        yield problem((*path, "bindVerb"), extender["bindVerb"], "nothing: the extender binds no pod")
    if not extender.get("prioritizeVerb"):
        want = "prioritize: otherwise the extender scores no node"
        yield problem((*path, "prioritizeVerb"), extender.get("prioritizeVerb"), want, Effect.ADVICE)


def _timeout_problems(timeout: Any, path: KeyPath) -> Iterator[Problem]:
    if timeout is None:
        want = "a few hundred milliseconds, like 300ms: the default of 5s blocks all scheduling for that long"
        yield problem(path, timeout, want, Effect.ADVICE)
        return
    try:
        nanos = times.duration_nanos(timeout) if isinstance(timeout, str) else 0
    except ValueError:
        nanos = 0
    if nanos <= 0:
        yield problem(path, timeout, "a duration like 300ms")
    elif nanos > _LONGEST_TIMEOUT_NANOS:
        yield problem(path, timeout, "at most 1s: a call blocks all scheduling", Effect.ADVICE)


def _tls_problems(extender: Mapping[str, Any], path: KeyPath) -> Iterator[Problem]:
    prefix, tls = extender.get("urlPrefix"), _member(extender, "tlsConfig")
    if isinstance(prefix, str) and prefix.startswith("http://") and extender.get("enableHTTPS") is True:
        yield problem((*path, "urlPrefix"), prefix, "https://... beside enableHTTPS: true")
    elif extender.get("enableHTTPS") is True and not any(_member(tls, key) for key in ("caFile", "caData", "insecure")):
        want = "caFile or caData: without one kube-scheduler trusts any server, without a warning"
        yield problem((*path, "tlsConfig"), tls, want, Effect.ADVICE)


def _weight_problems(profile: Any, path: KeyPath) -> Iterator[Problem]:
    plugins = _member(profile, "plugins")
    entries = [
        (key, str(_member(entry, "name")), _member(entry, "weight"))
        for point in ("multiPoint", "score")
        for key in ("enabled", "disabled")
        for entry in _items(_member(_member(plugins, point), key))
    ]
    decided = {name for key, name, weight in entries if key == "disabled" or weight}
    written_out = [(name, weight) for key, name, weight in entries if key == "enabled"]
    unchanged = [name for name, weight in written_out if weight and weight == _DEFAULT_WEIGHTS.get(name)]
    if unchanged and len(unchanged) == sum(name in _DEFAULT_WEIGHTS for name, _weight in written_out):
        want = "ten times the default weights: extender scores are multiplied by 10, so load counts ten times as much"
        yield problem((*path, "plugins"), {name: _DEFAULT_WEIGHTS[name] for name in unchanged}, want, Effect.ADVICE)
    undecided = [f"{name} {10 * weight}" for name, weight in _DEFAULT_WEIGHTS.items() if name not in decided]
    if undecided and "*" not in decided:
        want = f"ten times the default weights ({', '.join(undecided)}): extender scores are multiplied by 10"
        yield problem((*path, "plugins"), plugins, want, Effect.ADVICE)


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
