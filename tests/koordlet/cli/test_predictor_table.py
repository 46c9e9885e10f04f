from koordlet.cli import predictor_table
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak
from koordlet.prediction.server import Prediction
from koordlet.samples import Resource


def test_each_predictor_and_resource_has_a_row_or_a_reason():
    prod = {
        Resource.CPU: Peak(1.2345, 0.5, class_peak=1.2345, system_peak=0.1),
        Resource.MEMORY: Peak(3 * 2**20, 0.0, class_peak=2.0 * 2**20),
    }
    whole = Prediction(
        PredictParameters(), 0.0, 1, 1, {}, prod, WholeAmounts(1235, 3 << 20), WholeAmounts(0, 0),
        WholeAmounts(250, 1 << 30),
    )  # fmt: skip
    shown = predictor_table.table({"n-sigma-v1": whole, "max": NoPrediction("no sample")})
    assert shown == (
        "predictor   resource      peak  reclaimable  class  pods  system  cold requests\n"
        "n-sigma-v1  cpu, cores   1.234        0.250  1.234     -   0.100          0.500\n"
        "n-sigma-v1  memory, MiB    3.0       1024.0    2.0     -       -            0.0\n"
        "max         no prediction: no sample\n"
    )
