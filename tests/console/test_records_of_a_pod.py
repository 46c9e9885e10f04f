"""The page of decisions asks for the records of the pod that it names in full."""

import pytest

from console.cluster.details import Records
from tests.console import browsers, fleets

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("pod", "wanted", "other"), [("shop/web", "of this pod", "of all pods"), ("web", "of all pods", "of this pod")]
)
async def test_records_are_those_of_a_pod_with_its_namespace_and_of_all_otherwise(pod, wanted, other):
    given = {("records", pod): Records(missing="of this pod"), ("records", ""): Records(missing="of all pods")}
    asgi, _ = browsers.app(fleets.seen(fleets.nodes(1)), given)
    async with browsers.client(asgi) as opened:
        answer = await opened.get("/decisions", params={"pod": pod})
    assert wanted in answer.text
    assert other not in answer.text
