import numpy as np
import pytest

from scheduler_plugin.framework.cycle import PluginScores, combined


@pytest.mark.parametrize("weight", [1, 2, 5])
def test_the_scores_of_one_plugin_are_multiplied_by_its_weight(weight):
    scores = PluginScores("p", weight, np.array([0, 7, 100]))
    assert combined([scores], 3).tolist() == [0, 7 * weight, 100 * weight]
    assert combined([scores, scores], 3).tolist() == [0, 14 * weight, 200 * weight]
