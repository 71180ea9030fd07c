"""`penumbra doctor` and the list of versions with known holes."""

import json
import os
import sqlite3
import sys
from contextlib import closing

import pytest

from penumbra import rules, user_rules
from penumbra.cli import advisories, ca, certificates, doctor
from penumbra.cli.advisories import holes_of
from penumbra.cli.certificates import certificate_file
from penumbra.cli.command import Failure
from penumbra.cli.doctor import Level, checks
from penumbra.config.settings import Settings
from penumbra.metrics import running

RULES = rules.load("advisories.yaml")


@pytest.mark.parametrize(("package", "version", "ids"), RULES["examples"])
def test_the_examples_of_the_list(package, version, ids):
    assert [hole.id for hole in holes_of(package, version)] == ids


def test_every_hole_has_a_remedy_and_is_listed_once():
    ids = [entry["id"] for entry in RULES["holes"]]
    assert len(ids) == len(set(ids))
    for entry in RULES["holes"]:
        (found,) = [hole for hole in holes_of(entry["package"], "0.1") if hole.id == entry["id"]]
        assert found.remedy
        assert any(word in found.remedy for word in ("Python 3.12", "install", "scripts/run", "none yet"))
    assert holes_of("mitmproxy", "") == []


def test_each_check_prints_a_line_and_only_bad_ones_fail(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PENUMBRA_MODE", "PENUMBRA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENUMBRA_REDACT_SECRETS", "off")
    code = doctor.main([])
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert code == 0
    assert any(line.startswith("note  redact_secrets is off") for line in lines)
    assert not [line for line in lines if line.startswith("BAD ")]
    place = f"{tmp_path}/.local/state/penumbra/ca"
    assert f"ok    no CA certificate yet: the first start makes one in {place}" in lines
    assert list(tmp_path.iterdir()) == []
    assert any("mitmproxy" in line for line in lines)
    assert lines[0].startswith("note " if sys.version_info < (3, 12) else "ok ")

    monkeypatch.setenv("PENUMBRA_MODE", "loud")
    assert doctor.main([]) == 2
    assert "BAD   settings of environment and file: PENUMBRA_MODE: got 'loud'" in capsys.readouterr().out


def test_a_home_that_cannot_be_used_is_bad(tmp_path, monkeypatch):
    home = tmp_path / "no folder"
    home.write_text("")
    monkeypatch.setenv("HOME", str(home))
    (last,) = [check for check in checks({}) if check.about == "ca"]
    assert last.state is Level.BAD
    assert last.fix


def test_arguments_are_refused():
    with pytest.raises(Failure, match="doctor: got '--all', allowed: --json"):
        doctor.main(["--all"])


def test_rules_of_the_users_own_are_checked(tmp_path):
    def messages():
        return [str(check) for check in doctor.own_rules("", {"XDG_CONFIG_HOME": str(tmp_path)})]

    assert messages() == []
    folder = tmp_path / "penumbra" / "rules"
    folder.mkdir(parents=True)
    try:
        assert messages() == [f"ok    rules of your own: {folder}"]
        (folder / "tools.yaml").write_text("agent: {}\n")
        assert messages() == [
            f"note  rule left out: {folder}/tools.yaml: agent: unknown key, did you mean agents?"
        ]
    finally:
        user_rules.use(None)
    (missing,) = doctor.own_rules(str(tmp_path / "none"), {})
    assert missing.state is Level.BAD


def test_programs_read_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    code = doctor.main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert set(found[0]) == {"check", "state", "told", "fix"}
    assert code == (2 if any(line["state"] == "bad" for line in found) else 0)
    looked_at = {line["check"] for line in found}
    assert looked_at > {"python", "clock", "settings", "store", "port", "ca", "environment"}


def test_variables_that_lead_past_the_proxy_are_named(tmp_path, monkeypatch):
    def messages(environment):
        return [str(check) for check in doctor.past_the_proxy(environment)]

    monkeypatch.setenv("HOME", str(tmp_path))
    usual = {"ANTHROPIC_BASE_URL": "https://api.anthropic.com", "NO_PROXY": "intranet,127.0.0.1"}
    assert messages(usual) == ["ok    no variable makes clients bypass the proxy"]
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"env": {"HTTPS_PROXY": "http://corp:1", "no_proxy": ".anthropic.com"}}')
    lines = messages({"OPENAI_BASE_URL": "https://gw.example/v1"})
    for line, words in zip(lines, ("OPENAI_BASE_URL", "no_proxy in ", "HTTPS_PROXY in "), strict=True):
        assert line.startswith("note  ")
        assert words in line


def test_the_store_is_looked_at_and_not_changed(tmp_path):
    path = tmp_path / "some" / "penumbra.sqlite"
    settings = Settings(database=str(path))
    assert "is made at the first start" in doctor.store(settings, {}).text
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    check = doctor.store(settings, {})
    assert (check.state, "made by a later release" in check.text) == (Level.NOTE, True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    path.write_text("no database at all, and long enough to be looked at as if it were one" * 20)
    assert "can't be read" in doctor.store(settings, {}).text
    assert doctor.store(Settings(database="memory"), {}).state is Level.NOTE


def test_clients_trust_the_configured_certificates(tmp_path):
    """No installed kind of client trusts the CA by itself."""
    folder = tmp_path / "ca"
    ca.make(folder)
    bundle = certificates.with_bundle(certificate_file(folder)).bundle
    environment = {"PATH": os.environ["PATH"], "SSL_CERT_FILE": str(bundle), "CURL_CA_BUNDLE": str(bundle)}
    environment["NODE_EXTRA_CA_CERTS"] = str(certificate_file(folder))
    output = dict(doctor.families(folder, environment))
    assert set(output.values()) == {""}
    strangers = dict(doctor.families(folder, {"PATH": os.environ["PATH"]}))
    assert set(strangers) == set(output)
    assert all(strangers.values())


@pytest.mark.parametrize(
    ("led_to", "proxy", "where"),
    [
        ("", "", "under `penumbra wrap`"),
        ("http://127.0.0.1:8080", "", "under `penumbra wrap`"),
        ("", "127.0.0.1:8080", "under `penumbra wrap`"),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", "in this shell"),
    ],
)
def test_the_trust_of_a_shell_is_checked_only_if_the_shell_uses_a_proxy(
    led_to, proxy, where, tmp_path, monkeypatch
):
    """A proxy in reverse mode has no address for `HTTPS_PROXY`: its entry has an empty one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = {"HOME": str(tmp_path)} | ({"HTTPS_PROXY": led_to} if led_to else {})
    ca.make(folder := certificates.folder_in_use(environment=environment))
    certificates.with_bundle(certificate_file(folder))
    monkeypatch.setattr(running, "running", lambda _: iter([{"proxy": proxy}]))
    monkeypatch.setattr(doctor, "families", lambda *_: iter([("Python", "")]))
    output = [check.text for check in doctor.certificate(environment)]
    assert output[-1] == f"Python trusts the CA certificate {where}"


def test_packages_are_upgraded_by_their_installer(tmp_path):
    (pipx := tmp_path / "pipx").mkdir()
    (pipx / "pipx_metadata.json").touch()
    assert advisories.newer(("mitmproxy",), str(pipx)) == "pipx reinstall penumbra-proxy"
    assert advisories.alone("a>1", str(pipx)) == "pipx runpip penumbra-proxy install --no-deps 'a>1'"
    (uv := tmp_path / "uv").mkdir()
    (uv / "uv-receipt.toml").touch()
    assert advisories.newer(("mitmproxy",), str(uv)) == "uv tool upgrade penumbra-proxy"
    assert " --upgrade mitmproxy h2 && " in advisories.newer(("mitmproxy", "h2"), "/usr")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "venv").touch()
    (tmp_path / "addon" / "penumbra").mkdir(parents=True)
    clone = advisories.newer(("h2",), str(tmp_path / ".venv"))
    assert clone == f"rm -rf {tmp_path}/.venv && {tmp_path}/scripts/run --version"


def test_a_clock_that_is_wrong_is_noted():
    assert doctor.clock(RULES["date"]).state is Level.OK
    assert doctor.clock(RULES["date"].replace(year=1970)).state is Level.NOTE


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("PENUMBRA_FILTER", "~nonsense (", "BAD   penumbra_filter: got '~nonsense (': "),
        ("PENUMBRA_GITLEAKS_CONFIG", "/nowhere/g.toml", "BAD   penumbra_gitleaks_config: "),
        ("PENUMBRA_TOOL_COMPACTION", '{"toolonly": true}', "note  tool_compaction.toolonly: it is not read, "),
    ],
)  # fmt: skip
def test_errors_of_a_start_are_reported(variable, value, words, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    output = [str(check) for check in checks({variable: value})]
    assert [line for line in output if line.startswith(words)], output


def test_a_hole_without_a_remedy_is_reported_as_such(monkeypatch):
    asked = ["tornado<=6.5.5,>=6.5.0", "h2>=4.3.0,<=4.9; python_version > '3'"]
    monkeypatch.setattr("penumbra.cli.advisories.metadata.requires", lambda package: asked)
    monkeypatch.setattr("penumbra.cli.advisories.metadata.version", lambda package: "12.2.3")
    monkeypatch.setattr("penumbra.cli.advisories.sys.version_info", (3, 13))
    assert {hole.remedy for hole in holes_of("tornado", "6.5.5")} == {
        "none yet: mitmproxy 12.2.3 takes no tornado later than 6.5.5"
    }
    assert not any(hole.remedy.startswith("none yet") for hole in holes_of("h2", "4.3.0"))
