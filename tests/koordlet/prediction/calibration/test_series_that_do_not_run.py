"""Series without a sample in the newest tick use nothing."""

import numpy as np

from koordlet.prediction.calibration.resource_calibration import Level
from tests.koordlet.prediction.calibration.nodes import STEP_SECONDS, Node


def test_a_series_without_a_newest_sample_does_not_count_as_usage():
    node = Node([0.25, 0.5])
    node.step([0.125, 0.25])
    calibration = node.calibration
    assert calibration.level is Level.N_SIGMA, "of few labels"
    assert calibration.peak(node.load(), 0.0, 0.01) == 0.375
    calibration.tick(node.seconds + STEP_SECONDS, np.array([0]), np.array([0.125]), target_share=0.01)
    assert calibration.peak(node.load(), 0.0, 0.01) == 0.125
