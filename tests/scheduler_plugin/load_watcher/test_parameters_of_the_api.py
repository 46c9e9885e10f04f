"""Parameters in the OpenAPI document of the load watcher."""

import json

from scheduler_plugin.load_watcher import openapi


def test_parameters_of_a_path_are_required_and_those_of_a_query_are_not() -> None:
    paths = json.loads(openapi.DOCUMENT)["paths"]
    parameters = [each for path in paths.values() for each in path["get"].get("parameters", [])]
    required = {(each["in"], each.get("required", False)) for each in parameters}
    assert required == {("path", True), ("query", False)}
