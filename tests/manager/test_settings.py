import pytest

from manager.__main__ import main


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
