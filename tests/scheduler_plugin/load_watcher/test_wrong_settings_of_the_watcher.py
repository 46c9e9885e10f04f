"""Each wrong setting of the load watcher is printed, whatever the settings of its log are."""

import pytest

from scheduler_plugin.load_watcher import __main__ as program


def test_names_every_wrong_setting_and_ends_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METRICS_PROVIDER_NAME", "")
    assert program.main(["--http-port=70000", "--log-format=verse"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("load_watcher: ") for line in lines)
    assert [any(name in line for line in lines) for name in ("http", "log")] == [True, True]
