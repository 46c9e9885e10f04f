"""Write the rules as a MutatingAdmissionPolicy, in the Common Expression Language (CEL) of the API server.

The API server completes a pod before policies see it: requests from limits, quantities in whole thousandths, the
priority from its PriorityClass. An error in an expression leaves the pod as it is (`failurePolicy: Ignore`). Every
expression gives the same values when it runs again on its own result, which the API server does (`reinvocationPolicy`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from api_types import names
from api_types.kubernetes.priority_and_qos import BANDS, PriorityClass
from api_types.mid_pods import profile as profiles
from api_types.mid_pods.profile import Profile
from api_types.mid_pods.resources import LIMITS, PAIRS, REQUESTS, ResourcePair, RulesRefused
from api_types.mid_pods.template import DEFAULT_SCHEDULER

GROUP: Final = "admissionregistration.k8s.io"
VERSIONS: Final = ("v1", "v1beta1")
_MID: Final = PriorityClass.MID.value
_LABEL: Final = names.LABEL_PRIORITY_CLASS
_BAND: Final = BANDS[PriorityClass.MID]
_THOUSANDS: Final = [band.lowest // 1000 for band in BANDS.values()]
_PRIORITY: Final = "t.spec.?priority.orValue(0)"

IS_MID: Final = (
    f"[object].all(t, {_PRIORITY} > {_BAND.highest} || {_PRIORITY} / 1000 in {_THOUSANDS}"
    f" ? {_PRIORITY} / 1000 == {_BAND.lowest // 1000}"
    f" : !has(t.spec.priority) && t.spec.?priorityClassName.orValue('') == '{_MID}'"
    f" || t.?metadata.?labels[?'{_LABEL}'].orValue('') == '{_MID}'"
    " && (has(t.spec.priority) || t.spec.?priorityClassName.orValue('') == ''))"
)
"""Condition of `template.is_mid`; the chart puts a template in place of `[object]`."""
_WITHOUT_POD_LEVEL: Final = (
    "dyn(object.spec).?resources.?requests.orValue({}).size() == 0"
    " && dyn(object.spec).?resources.?limits.orValue({}).size() == 0"
)
_VALID: Final = (
    "(object.spec.containers.map(c, dyn(c)) + object.spec.?initContainers.orValue([]).map(c, dyn(c)))"
    ".all(c, [c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})].all(m, "
    f"{json.dumps([name for pair in PAIRS for name in pair])}.all(n, !(n in m) "
    "|| !quantity(string(m[n])).isLessThan(quantity('0'))) && "
    f"{json.dumps(list(names.MID_RESOURCES))}.all(n, !(n in m) || quantity(string(m[n])).isInteger())))"
)
CONDITIONS: Final = (
    {"name": "a-mid-pod", "expression": IS_MID},
    {"name": "without-resources-of-the-pod-as-a-whole", "expression": _WITHOUT_POD_LEVEL},
    {"name": "valid-amounts", "expression": _VALID},
)
"""Conditions under which the rules apply to a pod, as `matchConditions` of a policy or of a webhook."""

_REQUESTS: Final = "c.?resources.?requests.orValue({})"
_LIMITS: Final = "c.?resources.?limits.orValue({})"
_TO_MID: Final = {
    names.CPU: "string(int(quantity(q).asApproximateFloat() * 1000.0 + 0.5))",
    names.MEMORY: "quantity(q).isInteger() ? q : string(int(quantity(q).asApproximateFloat()) + 1)",
}
_LIMIT, _REQUEST = 0, 1
_TO_NATIVE: Final = {names.CPU: "string(quantity({}).asInteger()) + 'm'", names.MEMORY: "{}"}


def limits_of_mid_pods(
    name: str, scheduler_name: str = "", version: str = "v1", *, native_limits: bool = True
) -> list[dict[str, Any]]:
    """Return the policy for every Mid pod, and its binding. The other arguments are those of `template.limited`."""
    spec = {
        "matchConstraints": _match(),
        "matchConditions": [dict(condition) for condition in CONDITIONS],
        "variables": _variables("true"),
        "mutations": [_mutation(_limits(scheduler_name, native_limits=native_limits))],
    }
    return _objects(name, spec, version)


def profile_objects(
    profile: Profile, scheduler_name: str = "", version: str = "v1", *, native_limits: bool = True
) -> list[dict[str, Any]]:
    """Return the policy that does what a profile does for the pods that it selects, and its binding.

    Pods of its own class match again, for a policy that has not matched a pod has no second turn. Raises RulesRefused.
    """
    fields = list(_fields(profile))
    if not fields and profile.skips_resources:
        raise RulesRefused("the profile sets no field and skips the resources; want at least one field")
    mutations = [_mutation(fields)] if fields else []
    variables = []
    classes = f"object.spec.?priorityClassName.orValue('') in ['', '{profile.priority_class_name}']"
    if not profile.skips_resources:
        variables = _variables(" && ".join(f"({condition['expression']})" for condition in CONDITIONS))
        mutations.append(_mutation(_limits(scheduler_name, native_limits=native_limits)))
    spec = {
        "matchConstraints": _match(
            namespaceSelector=profile.namespace_selector and profile.namespace_selector.to_wire(),
            objectSelector=profile.selector and profile.selector.to_wire(),
        ),
        "matchConditions": [{"name": "of-no-other-class", "expression": classes}] if profile.keeps_classes else [],
        "variables": variables,
        "mutations": mutations,
    }
    return _objects(
        f"koord-suite-profile-{profile.name}", {key: value for key, value in spec.items() if value}, version
    )


def _objects(name: str, spec: Mapping[str, Any], version: str) -> list[dict[str, Any]]:
    head = {"apiVersion": f"{GROUP}/{version}"}
    policy = {"failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded", **spec}
    return [
        {**head, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": policy},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name}},
    ]


def _match(**selectors: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {**{key: value for key, value in selectors.items() if value}, "resourceRules": [rule]}


def _mutation(patches: Iterable[str]) -> dict[str, Any]:
    """Return a mutation by JSON patches. An apply configuration fails for a pod with two variables of one name."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": " + ".join(patches)}}


def _variables(condition: str) -> list[dict[str, str]]:
    """Return the resources of each container as given, with their path; then with [limit, request] in Mid units."""
    fields = f"'requests': dyn({_REQUESTS}), 'limits': dyn({_LIMITS})"
    of_lists = " + ".join(
        f"object.spec.{field}.transformList(i, c, "
        f"dyn({{'path': dyn('/spec/{name}/' + string(i) + '/resources/'), {fields}}}))"
        for name, field in (("containers", "containers"), ("initContainers", "?initContainers.orValue([])"))
    )
    stated = ", ".join(f"'{pair.native}': dyn({_stated(pair)})" for pair in PAIRS)
    fields_in_cel = "'path': dyn(c.path), 'requests': dyn(c.requests), 'limits': dyn(c.limits)"
    return [
        {"name": "given", "expression": f"{condition} ? {of_lists} : []"},
        {"name": "stated", "expression": f"variables.given.map(c, dyn({{{fields_in_cel}, {stated}}}))"},
    ]


def _stated(pair: ResourcePair) -> str:
    """Return an expression of [limit, request] of container c in Mid units, "0" where nothing is stated."""
    return (
        f"['{pair.mid}' in c.requests || '{pair.mid}' in c.limits ? '{pair.mid}' : '{pair.native}']"
        ".map(s, [s in c.limits ? string(c.limits[s]) : s in c.requests ? string(c.requests[s]) : '0', "
        "s in c.requests ? string(c.requests[s]) : s in c.limits ? string(c.limits[s]) : '0']"
        f".map(q, s == '{pair.mid}' ? q : {_TO_MID[pair.native]}))[0]"
    )


def _amount(pair: ResourcePair, index: int) -> str:
    return f"string(e['{pair.native}'][{index}])"


def _is_stated(pair: ResourcePair) -> str:
    return f"quantity({_amount(pair, _LIMIT)}).isGreaterThan(quantity('0'))"


def _native_limit(pair: ResourcePair) -> str:
    """Return an expression of the native limit: the author's, where it is above 0 and at most the Mid limit."""
    author_limit = f"quantity(string(e.limits['{pair.native}']))"
    cap = _TO_NATIVE[pair.native].format(_amount(pair, _LIMIT))
    return (
        f"'{pair.native}' in e.limits && {author_limit}.isGreaterThan(quantity('0')) && "
        f"!{author_limit}.isGreaterThan(quantity({cap})) ? string(e.limits['{pair.native}']) : {cap}"
    )


def _limits(scheduler_name: str, *, native_limits: bool = True) -> Iterator[str]:
    """Yield the patches that set the limits of all containers, and the name of the scheduler."""
    stated = " || ".join(map(_is_stated, PAIRS))
    for where in (REQUESTS, LIMITS):
        yield _container_patches(f"e.{where}.size() == 0 && ({stated})", where, "{}")
    for pair in PAIRS:
        native = ((REQUESTS, pair.native, "'0'"), (LIMITS, pair.native, _native_limit(pair)))
        mid = ((REQUESTS, pair.mid, _amount(pair, _REQUEST)), (LIMITS, pair.mid, _amount(pair, _LIMIT)))
        for where, name, value in (*native, *mid) if native_limits else mid:
            yield _container_patches(_is_stated(pair), f"{where}/{_escaped(name)}", value)
        for where, name, _ in () if native_limits else native:
            yield _without(f"{_is_stated(pair)} && '{name}' in e.{where}", f"{where}/{name}")
    if scheduler_name:
        is_default = f"object.spec.?schedulerName.orValue('{DEFAULT_SCHEDULER}') == '{DEFAULT_SCHEDULER}'"
        yield _if(
            f"variables.given.size() > 0 && {is_default}", _add("'/spec/schedulerName'", _literal(scheduler_name))
        )


def _fields(profile: Profile) -> Iterator[str]:
    """Yield the patches that set the labels, annotations and fields of a profile."""
    for field, values in (("labels", profile.labels), ("annotations", profile.annotations)):
        if values:
            yield _if(f"!has(object.metadata.{field})", _add(f"'/metadata/{field}'", "{}"))
        for key, value in values.items():
            yield f"[{_add(_literal(f'/metadata/{field}/{_escaped(key)}'), _literal(value))}]"
    if profile.scheduler_name:
        yield f"[{_add(_literal('/spec/schedulerName'), _literal(profile.scheduler_name))}]"
    if profile.priority_class_name:
        name, policy = _literal(profile.priority_class_name), _literal(profiles.PREEMPTION_POLICY)
        yield f"[{_add(_literal('/spec/priorityClassName'), name)}]"
        yield f"[{_add(_literal('/spec/priority'), str(profiles.PRIORITIES[profile.priority_class_name]))}]"
        yield f"[{_add(_literal('/spec/preemptionPolicy'), policy)}]"


def _container_patches(condition: str, path: str, value: str) -> str:
    patch = _add(f"string(e.path) + '{path}'", value)
    return f"variables.stated.filter(e, {condition}).map(e, {patch})"


def _without(condition: str, path: str) -> str:
    """Return patches that remove a field of containers."""
    patch = f"JSONPatch{{op: 'remove', path: string(e.path) + '{path}'}}"
    return f"variables.stated.filter(e, {condition}).map(e, {patch})"


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _if(condition: str, patch: str) -> str:
    return f"({condition} ? [{patch}] : [])"


def _literal(text: str) -> str:
    """Return a text as a literal of CEL, which has the escapes of JSON but for pairs of surrogates."""
    return json.dumps(text, ensure_ascii=False)


def _escaped(key: str) -> str:
    """Return a key as a part of the path of a JSON patch (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
