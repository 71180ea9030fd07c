"""`penumbra service` and what local capture needs."""

import plistlib

import pytest

from penumbra.cli import local, service
from penumbra.cli.command import Failure


def test_units_start_this_very_installation(capsys):
    assert service.main(["--systemd", "--", "--set", "penumbra_filter=~u 100%"]) == 0
    unit = capsys.readouterr().out
    (line,) = [line for line in unit.split("\n") if line.startswith("ExecStart=/")]
    assert line.endswith("proxy --set 'penumbra_filter=~u 100%%'")
    assert service.main(["--launchd", "--", "-p", "9<"]) == 0
    told = plistlib.loads(capsys.readouterr().out.encode())
    assert told["ProgramArguments"][-3:] == ["proxy", "-p", "9<"]
    with pytest.raises(Failure):
        service.main(["--upstart"])


def test_what_local_capture_lacks_is_told(monkeypatch):
    monkeypatch.setattr(local, "version_of", lambda package: "0.12.15")
    assert local.lacking("Darwin", "24.0") == ""
    assert "needs Linux 6.8" in local.lacking("Linux", "6.1.0-9-amd64")
    assert "WSL" in local.lacking("Linux", "6.9.0-microsoft-standard-WSL2")
    monkeypatch.setattr(local, "version_of", lambda package: "0.10.7")
    assert "mitmproxy_rs 0.12.11 or later, and this is 0.10.7" in local.lacking("Darwin", "24.0")
    with pytest.raises(Failure, match="which program"):
        local.main(["--set", "x=y"])
