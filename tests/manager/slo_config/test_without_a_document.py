"""What holds where no document was read, and where one leaves keys out."""

import pytest

from api_types.colocation import controller_config
from manager.slo_config import strategy


def test_a_node_without_a_configuration_has_colocation_enabled():
    assert strategy.unconfigured().strategy.enable is True


@pytest.mark.parametrize(("document", "emergency"), [({}, "none"), ({"midEmergency": "drain"}, "drain")])
def test_the_emergency_is_the_one_of_the_document(document, emergency):
    found = controller_config.ColocationConfig.model_validate({"enable": True, **document})
    assert strategy.configuration(found).emergency == emergency
