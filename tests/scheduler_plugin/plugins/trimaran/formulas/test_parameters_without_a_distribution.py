"""Parameters that are not positive have no beta distribution: the result is 0, the pessimistic value."""

import numpy as np
import pytest

from scheduler_plugin.plugins.trimaran.formulas import beta_distribution
from scheduler_plugin.plugins.trimaran.formulas.beta_distribution import Fit


@pytest.mark.parametrize("x", [0.5, 1.0])
@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 0.0), (0.0, 2.0), (0.0, 0.0), (-1.0, 2.0), (2.0, -1.0)])
def test_the_result_is_0_and_that_of_another_node_is_not_affected(alpha, beta, x):
    of = Fit(np.array([alpha, 1.0]), np.array([beta, 1.0]), np.array([True, True]))
    assert beta_distribution.distribution(of, x) == pytest.approx([0.0, x])
