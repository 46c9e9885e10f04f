"""The exception of each answer, and its message."""

import json

import pytest

from apiserver_client import errors

GET_NODE = errors.Call("GET", "/api/v1/nodes/n1", "get", "nodes")
PUT_STATUS = errors.Call(
    "PUT",
    "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1/status",
    "update",
    "nodemetrics/status",
    "slo.koordinator.sh",
)


def answer(code, reason, message="", **details):
    document = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", errors.StatusError),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.Throttled),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (504, "Timeout", errors.ServerError),
        (405, "MethodNotAllowed", errors.StatusError),
    ],
)
def test_each_status_has_its_error(status, reason, expected):
    error = errors.refusal(GET_NODE, status, answer(status, reason, "the message"))
    assert type(error) is expected
    assert (error.status, error.reason, error.server_message) == (status, reason, "the message")
    assert str(error).startswith(f"GET /api/v1/nodes/n1: {status} {reason}: the message")


def test_a_missing_object_is_not_found():
    body = answer(404, "NotFound", 'nodes "n1" not found', name="n1", kind="nodes")
    error = errors.refusal(GET_NODE, 404, body)
    assert type(error) is errors.NotFound
    assert str(error) == 'GET /api/v1/nodes/n1: 404 NotFound: nodes "n1" not found'


@pytest.mark.parametrize(
    "body",
    [b"404 page not found\n", answer(404, "NotFound", "the server could not find the requested resource")],
    ids=["group missing", "plural missing"],
)
def test_a_missing_type_is_not_a_missing_object_and_names_the_crd(body):
    error = errors.refusal(PUT_STATUS, 404, body)
    assert type(error) is errors.UnknownResource
    assert not isinstance(error, errors.NotFound)
    assert "does not serve nodemetrics.slo.koordinator.sh: install its CRD" in str(error)


def test_forbidden_names_the_rule_to_grant():
    error = errors.refusal(PUT_STATUS, 403, answer(403, "Forbidden", "no"))
    assert 'verbs: [update], resources: [nodemetrics/status], apiGroups: ["slo.koordinator.sh"]' in str(error)


def test_invalid_has_the_fault_of_each_field():
    causes = [{"reason": "FieldValueInvalid", "message": "must be positive", "field": "status.x"}]
    error = errors.refusal(PUT_STATUS, 422, answer(422, "Invalid", "bad", name="n1", causes=causes))
    assert error.causes == (errors.StatusCause("FieldValueInvalid", "must be positive", "status.x"),)


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ("7", {}, 7.0),
        ("", {"retryAfterSeconds": 3}, 3.0),
        ("", {}, None),
        ("9" * 400, {}, 60.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
    ],
)
def test_the_time_to_wait_comes_from_header_or_details(header, details, expected):
    error = errors.refusal(GET_NODE, 429, answer(429, "TooManyRequests", "later", **details), header)
    assert error.retry_after_seconds == expected


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_whatever_the_status_the_time_to_wait_is_kept(status):
    assert errors.refusal(PUT_STATUS, status, b"", "7").retry_after_seconds == 7.0
    assert errors.Unreachable("no answer").retry_after_seconds is None


def test_the_page_of_a_proxy_is_quoted_in_one_short_line():
    error = errors.refusal(GET_NODE, 502, b"<html>\n<body>Bad\n  Gateway" + b" very" * 500)
    assert type(error) is errors.ServerError
    assert str(error).startswith("GET /api/v1/nodes/n1: 502: <html> <body>Bad Gateway very")
    assert len(str(error)) < 400


def test_quotes_json_that_is_not_a_status():
    error = errors.refusal(GET_NODE, 409, b'{"code": "E17", "message": "quota"}')
    assert str(error) == 'GET /api/v1/nodes/n1: 409: {"code": "E17", "message": "quota"}'


def test_one_except_catches_everything():
    family = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, Exception)]
    assert family
    assert all(issubclass(it, errors.ApiServerError) for it in family)
