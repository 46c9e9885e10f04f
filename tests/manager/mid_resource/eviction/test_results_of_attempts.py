"""What an answer of the Eviction API means, and how long a refused pod waits for the others of its node."""

import pytest

from apiserver_client import errors
from manager.metrics.collectors import AttemptResult
from manager.mid_resource.eviction import pace

CALL = errors.Call("POST", "/api/v1/namespaces/a/pods/p/eviction", "create", "pods/eviction")
BUDGET, OTHER = errors.StatusCause(reason="DisruptionBudget", message="needs 2"), errors.StatusCause(reason="Other")


def answered(kind, status, *causes):
    return kind(CALL, status, errors.ApiStatus(details=errors.Details(causes=causes)), None)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (answered(errors.NotFound, 404), AttemptResult.GONE),
        (answered(errors.Conflict, 409), AttemptResult.GONE),
        (answered(errors.Forbidden, 403), AttemptResult.FORBIDDEN),
        (answered(errors.Throttled, 429, BUDGET), AttemptResult.REFUSED),
        (answered(errors.Throttled, 429, OTHER, BUDGET), AttemptResult.REFUSED),
        (answered(errors.Throttled, 429, OTHER), AttemptResult.FAILED),
        (answered(errors.Throttled, 429), AttemptResult.FAILED),
        (answered(errors.BadRequest, 400), AttemptResult.REFUSED),
        (answered(errors.Invalid, 422), AttemptResult.REFUSED),
        (answered(errors.ServerError, 500), AttemptResult.REFUSED),
        (answered(errors.ServerError, 503), AttemptResult.FAILED),
        (answered(errors.Unauthorized, 401), AttemptResult.FAILED),
        (errors.Unreachable("connection lost"), AttemptResult.FAILED),
    ],
)
def test_only_what_concerns_the_pod_itself_is_a_refusal(error, result):
    assert pace.classify(error) is result
