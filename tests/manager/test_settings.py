import pytest

from manager.__main__ import main
from manager.cli.admission.settings import AdmissionSettings
from manager.cli.lowered_limits import RestoreSettings
from manager.cli.uninstall import UninstallSettings
from manager.settings import ManagerSettings
from tests.component_base.settings_bounds import check_number, problems

DAY_SECONDS = 24 * 60 * 60


def test_the_defaults_are_valid():
    assert ManagerSettings().namespace == "koordinator-system"


@pytest.mark.parametrize(
    ("settings", "field", "least", "most"),
    [
        (ManagerSettings, "workers", 1, 64),
        (ManagerSettings, "withdrawal_check_seconds", 5, 600),
        (ManagerSettings, "lease_duration_seconds", 1.0, 120.0),
        (ManagerSettings, "renew_deadline_seconds", 0.5, 100.0),
        (ManagerSettings, "retry_period_seconds", 0.05, 30.0),
        (ManagerSettings, "http_port", 0, 65_535),
        (AdmissionSettings, "certificate_check_seconds", 0.05, 3600.0),
        (AdmissionSettings, "port", 1, 65_535),
        (AdmissionSettings, "http_port", 0, 65_535),
        (UninstallSettings, "stop_seconds", 0.01, 3600.0),
        (UninstallSettings, "timeout_seconds", 0.01, float(DAY_SECONDS)),
        (RestoreSettings, "timeout_seconds", 0.01, float(DAY_SECONDS)),
    ],
)
def test_a_number_at_its_bounds_is_accepted_and_one_beyond_is_not(settings, field, least, most):
    check_number(settings, field, least, most)


@pytest.mark.parametrize(
    ("settings", "longest", "fields"),
    [
        (ManagerSettings, 63, ["namespace"]),
        (ManagerSettings, 253, ["config_map", "last_good_config_map", "lease"]),
        (AdmissionSettings, 63, ["namespace", "service"]),
        (AdmissionSettings, 253, ["secret", "webhook_configuration"]),
        (UninstallSettings, 63, ["namespace"]),
        (UninstallSettings, 253, ["lease", "config_map"]),
    ],
)
def test_a_name_has_at_least_one_character_and_at_most_as_many_as_kubernetes_permits(settings, longest, fields):
    for field in fields:
        assert [problems(settings, field, "n" * length) for length in (1, longest)] == [[], []]
        assert all(problems(settings, field, "n" * length) for length in (0, longest + 1)), field


def test_a_folder_may_have_one_character_and_has_at_least_one():
    assert problems(AdmissionSettings, "certificate_folder", ".") == []
    assert problems(AdmissionSettings, "certificate_folder", "")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--renew-deadline-seconds", "14"], "want retry-period-seconds < renew-deadline-seconds <= 0.8 * lease"),
        (["--workers", "0"], "flag --workers is '0'"),
    ],
)
def test_invalid_settings_are_refused_before_the_start(flags, expected, capsys):
    assert main(["run", *flags]) == 2
    assert expected in capsys.readouterr().err


def test_run_is_the_default_command(capsys):
    assert main(["--workers", "0"]) == 2
    assert "--workers" in capsys.readouterr().err


def test_reports_missing_credentials_in_one_line(capsys, tmp_path):
    assert main(["run", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err
