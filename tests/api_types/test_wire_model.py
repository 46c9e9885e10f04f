import pydantic
import pytest

from api_types import wire_model


@pytest.mark.parametrize("amount", ["many", "1 Gi", 0.5, True, None])
def test_a_resource_list_holds_quantities_alone(amount):
    wanted = pydantic.TypeAdapter(wire_model.ResourceList)
    assert wanted.validate_python({"cpu": "500m", "memory": 4096}) == {"cpu": "500m", "memory": 4096}
    with pytest.raises(pydantic.ValidationError):
        wanted.validate_python({"cpu": amount})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:hunter2@host:9090/p", "http://host:9090/p"),
        ("cannot reach https://me:h@nter/2@host/p: timed out", "cannot reach https://host/p: timed out"),
        ("me:hunter2@host:9090", "host:9090"),
        ('{"a": "//token@host", "b": "http://host/p"}', '{"a": "//host", "b": "http://host/p"}'),
        ("http://[::1]:9090/p and 12:30, a@b", "http://[::1]:9090/p and 12:30, a@b"),
    ],
)
def test_a_text_is_shown_without_the_credentials_of_addresses(text, shown):
    assert wire_model.without_credentials(text) == shown
