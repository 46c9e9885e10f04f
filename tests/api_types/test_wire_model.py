import pydantic
import pytest

from api_types import wire_model


@pytest.mark.parametrize("amount", ["many", "1 Gi", 0.5, True, None])
def test_a_resource_list_holds_quantities_alone(amount):
    wanted = pydantic.TypeAdapter(wire_model.ResourceList)
    assert wanted.validate_python({"cpu": "500m", "memory": 4096}) == {"cpu": "500m", "memory": 4096}
    with pytest.raises(pydantic.ValidationError):
        wanted.validate_python({"cpu": amount})
