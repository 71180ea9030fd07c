"""`penumbra doctor` and the list of versions with known holes."""

import sys
from importlib import metadata

import pytest

from penumbra import rules, user_rules
from penumbra.cli import doctor
from penumbra.cli.advisories import holes, holes_of
from penumbra.cli.doctor import State, checks
from penumbra.cli.failure import Failure

RULES = rules.load("advisories.yaml")


@pytest.mark.parametrize(("package", "version", "ids"), RULES["examples"])
def test_the_examples_of_the_list(package, version, ids):
    assert [hole.id for hole in holes_of(package, version)] == ids


def test_every_hole_says_what_to_do_and_none_is_listed_twice():
    ids = [entry["id"] for entry in RULES["holes"]]
    assert len(ids) == len(set(ids))
    for entry in RULES["holes"]:
        (found,) = [hole for hole in holes_of(entry["package"], "0.1") if hole.id == entry["id"]]
        assert found.remedy
        assert "Python" in found.remedy or "pip install" in found.remedy
    assert holes_of("mitmproxy", "") == []


def test_what_is_installed_is_compared():
    found = {hole.id for hole in holes() if hole.package == "mitmproxy"}
    assert ("CVE-2025-23217" in found) == (metadata.version("mitmproxy") == "11.0.2")


def test_one_line_a_check_and_the_worst_is_the_exit_code(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PENUMBRA_MODE", "PENUMBRA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    code = doctor.main([])
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert code == (1 if any(line.startswith("note ") for line in lines) else 0)
    assert not [line for line in lines if line.startswith("BAD ")]
    assert any(
        line.startswith(f"ok    CA certificate {tmp_path}/.local/state/penumbra/ca/") for line in lines
    )
    assert any("mitmproxy" in line for line in lines)
    assert lines[0].startswith("note " if sys.version_info < (3, 12) else "ok ")

    monkeypatch.setenv("PENUMBRA_MODE", "loud")
    assert doctor.main([]) == 2
    assert "BAD   settings of environment and file: PENUMBRA_MODE: got 'loud'" in capsys.readouterr().out


def test_settings_that_endanger_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    told = [str(check) for check in checks({"PENUMBRA_REDACT_SECRETS": "off", "PENUMBRA_XYZ": "1"})]
    assert "note  PENUMBRA_XYZ: Penumbra reads no variable of this name" in told
    assert any(line.startswith("note  redact_secrets is off") for line in told)


def test_a_home_that_cannot_be_used_is_bad(tmp_path, monkeypatch):
    home = tmp_path / "no folder"
    home.write_text("")
    monkeypatch.setenv("HOME", str(home))
    (last,) = [check for check in checks({}) if "CA certificate" in check.told]
    assert last.state is State.BAD


def test_arguments_are_refused():
    with pytest.raises(Failure, match="doctor takes no arguments, got '--all'"):
        doctor.main(["--all"])


def test_rules_of_the_users_own_are_checked(tmp_path):
    def told():
        return [str(check) for check in doctor._rules("", {"XDG_CONFIG_HOME": str(tmp_path)})]

    assert told() == []
    folder = tmp_path / "penumbra" / "rules"
    folder.mkdir(parents=True)
    try:
        assert told() == [f"ok    rules of your own: {folder}"]
        (folder / "tools.yaml").write_text("agent: {}\n")
        assert told() == [
            f"note  rule left out: {folder}/tools.yaml: agent: unknown key, did you mean agents?",
        ]
    finally:
        user_rules.use(None)
    (missing,) = doctor._rules(str(tmp_path / "none"), {})
    assert missing.state is State.BAD
