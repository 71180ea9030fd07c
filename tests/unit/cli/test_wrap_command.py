"""`penumbra wrap` without a process of its own: arguments, environment, and the line at the end."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penumbra.cli import agent_environment, certificates, proxy_process, wrap
from penumbra.cli.agent_environment import Programs, covers_llm_host
from penumbra.cli.certificates import Certificates
from penumbra.cli.command import Failure

KNOWN = Certificates(Path("/c/ca.pem"), Path("/c/bundle.pem"))
PEM = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("-- claude -p --set x=1", {"program": ("claude", "-p", "--set", "x=1")}),
        ("claude --quiet", {"program": ("claude", "--quiet")}),
        ("--set a=1 --set=b=2 --new -- x", {"program": ("x",), "settings": ["a=1", "b=2"], "new": True}),
        ("--web --quiet --log=/l x", {"program": ("x",), "web": True, "quiet": True, "log": "/l"}),
        ("--print-env", {"shell": "fish"}),
        ("--print-env=powershell", {"shell": "powershell"}),
    ],
)
def test_options_come_first_and_all_else_belongs_to_the_program(given, wanted):
    read = vars(wrap.read(given.split(), {"SHELL": "/usr/bin/fish"}))
    assert {name: value for name, value in read.items() if value} == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--", "no program given"),
        ("--new", "no program given"),
        ("--set", "--set: expected one argument"),
        ("--port 1 x", "wrap: got '--port', allowed: --set NAME=VALUE"),
        ("--new=yes x", "--new: ignored explicit argument"),
        ("--print-env=csh", "allowed: sh, fish or powershell"),
    ],
)
def test_impossible_arguments_are_reported(given, words):
    with pytest.raises(Failure, match=words) as failed:
        wrap.read(given.split(), {})
    assert failed.value.code == 2


def found(environment, **tools):
    return agent_environment.variables(
        "127.0.0.1:7", KNOWN, environment, is_llm_host=covers_llm_host, tools=Programs(**tools)
    )


def test_both_spellings_and_bundles_where_they_replace():
    got = found({})
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        assert got[name] == "http://127.0.0.1:7"
    assert got["NO_PROXY"] == got["no_proxy"] == "localhost,127.0.0.1,::1"
    for name in (
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "CODEX_CA_CERTIFICATE",
        "GIT_SSL_CAINFO",
    ):
        assert got[name] == "/c/bundle.pem"
    assert got["NODE_EXTRA_CA_CERTS"] == "/c/ca.pem"
    assert got["NODE_USE_ENV_PROXY"] == "1"
    assert found({"NODE_EXTRA_CA_CERTS": "/corp.pem"})["NODE_EXTRA_CA_CERTS"] == "/c/bundle.pem"
    assert "GIT_SSL_CAINFO" not in found({}, git_has_own=True)
    assert "NODE_USE_ENV_PROXY" not in found({}, node_uses_proxy=False)


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        ("*", ""),
        ("intranet.example, .corp.example:8080", "intranet.example,.corp.example:8080,"),
        ("api.anthropic.com,.openai.com,*.anthropic.com,com", ""),
        ("bedrock-runtime.us-east-1.amazonaws.com,us-east-1.amazonaws.com,amazonaws.com", ""),
        ("s3.amazonaws.com,.s3.us-east-1.amazonaws.com", "s3.amazonaws.com,.s3.us-east-1.amazonaws.com,"),
        ("m,om,opic.com,xapi.anthropic.company", "m,om,opic.com,xapi.anthropic.company,"),
        ("mycorp.openai.azure.com us-central1-aiplatform.googleapis.com,azure.com", ""),
        ("API.anthropic.com.,https://api.anthropic.com,http://api.openai.com:443/v1,.,a.b.anthropic.com", ""),
        (
            "storage.googleapis.com,blob.core.windows.net,::1",
            "storage.googleapis.com,blob.core.windows.net,::1,",
        ),
        ("127.0.0.1,10.0.0.0/8", "127.0.0.1,10.0.0.0/8,"),
    ],
)
def test_excepted_hosts_stay_excepted_but_for_llm_hosts(named, kept):
    wanted = list(dict.fromkeys((kept + "localhost,127.0.0.1,::1").split(",")))
    assert found({"no_proxy": named})["NO_PROXY"].split(",") == wanted


def test_lines_for_a_shell():
    variables = {"HTTPS_PROXY": "http://h", "https_proxy": "http://h", "NODE_EXTRA_CA_CERTS": "/a b/it's"}
    assert agent_environment.for_shell(variables, "sh").split("\n") == [
        "export HTTPS_PROXY=http://h",
        "export https_proxy=http://h",
        "export NODE_EXTRA_CA_CERTS='/a b/it'\"'\"'s'",
    ]
    assert "set -gx NODE_EXTRA_CA_CERTS '/a b/it\\'s'" in agent_environment.for_shell(variables, "fish")
    assert agent_environment.for_shell(variables, "powershell").split("\n") == [
        "$env:HTTPS_PROXY = 'http://h'",
        "$env:NODE_EXTRA_CA_CERTS = '/a b/it''s'",
    ]


def test_a_bundle_has_the_certificates_that_the_user_trusts(tmp_path):
    ca, corp = tmp_path / "ca" / "ca.pem", tmp_path / "corp.pem"
    ca.parent.mkdir()
    ca.write_text(PEM.format("T1VSUw=="))
    corp.write_text("# ours\r\n" + PEM.format("Q09SUA==").replace("\n", "\r\n"))
    usual = certificates.with_bundle(ca).bundle
    assert usual.read_text().startswith(PEM.format("T1VSUw=="))
    assert usual.read_text().count("BEGIN CERTIFICATE") > 50
    extra = agent_environment.extra_files({"SSL_CERT_FILE": str(corp), "PIP_CERT": str(corp)})
    wider = certificates.with_bundle(ca, extra).bundle
    assert wider != usual
    assert wider.read_text() == usual.read_text() + PEM.format("Q09SUA==")
    assert certificates.with_bundle(ca, [usual, tmp_path / "none"]).bundle == usual


def test_another_proxy_is_gone_through():
    assert agent_environment.upstream({"https_proxy": "corp:3128"}) == "http://corp:3128"
    assert proxy_process.upstream_mode("") == []
    assert proxy_process.upstream_mode("http://corp:3128") == ["--mode", "upstream:http://corp:3128"]
    assert proxy_process.upstream_mode("https://u:p%40@corp/") == [
        *("--mode", "upstream:https://corp:443"),
        *("--set", "upstream_auth=u:p@"),
    ]
    with pytest.raises(Failure, match="socks5://corp here, and mitmproxy can go through http and https"):
        proxy_process.upstream_mode("socks5://corp:1")


def test_a_summary_has_one_line():
    before = {"requests": 3, "sent_tokens": [100, 90], "redactions": {"a": 1}, "milliseconds": 10.5}
    now = {
        "requests": 5,
        "refused": 1,
        "sent_tokens": [10_100, 2_090],
        "redactions": {"a": 2, "b": 2},
        "milliseconds": 1510.5,
        "dollars": 0.456,
        "unpriced": 1,
    }
    assert wrap.summary(proxy_process.difference(now, before)) == (
        "3 requests, about 10,000 -> 2,000 tokens of tool results (-80%), at least $0.46 saved at list prices, "
        "3 secrets kept back, 1 refused, 1.5 s added"
    )
    assert "10,000 -> 9,960 tokens of tool results (-0.4%)" in wrap.summary(
        {"requests": 1, "sent_tokens": [10_000, 9_960]}
    )
    assert wrap.summary(proxy_process.difference(now, now)) == ""
    assert wrap.summary({}) == ""


def test_hosts_of_the_option_count_among_llm_hosts():
    hosts = ("llm.corp.example", "gw-*.corp.example")
    for entry in ("llm.corp.example:8443", "corp.example", "gw-1.corp.example"):
        assert covers_llm_host(entry, hosts)
        assert not covers_llm_host(entry)
    assert not covers_llm_host("git.example", hosts)


def test_a_proxy_is_joined_only_with_a_certificate_of_this_user(tmp_path, monkeypatch):
    ca, link = tmp_path / "ca.pem", tmp_path / "link.pem"
    ca.write_text("")
    link.symlink_to(ca)
    listening = socket.create_server(("127.0.0.1", 0))
    place = f"127.0.0.1:{listening.getsockname()[1]}"
    entry = {"proxy": place, "version": proxy_process.__version__, "pid": 7}

    def joined(path):
        monkeypatch.setattr(proxy_process.running, "running", lambda where: [entry | {"ca": str(path)}])
        return proxy_process.joinable({}) is not None

    assert joined(ca)
    assert not joined(link)
    assert not joined(tmp_path)
    ca.chmod(0o666)
    assert not joined(ca)
    ca.chmod(0o644)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert not joined(ca)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no job control")
def test_without_a_terminal_a_stopped_program_that_another_process_continues_ends_as_usual():
    stops = "(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; exit 6"
    code = "import os, sys; from penumbra.cli import wrap; sys.exit(wrap.run('/bin/sh', sys.argv[1:], os.environ))"
    done = subprocess.run(
        [sys.executable, "-c", code, "sh", "-c", stops], stdin=subprocess.DEVNULL, timeout=60, check=False
    )
    assert done.returncode == 6


@pytest.mark.skipif(sys.platform != "linux", reason="no signal tells a program that its parent was killed")
@pytest.mark.parametrize("has_proxy", [True, False], ids=["own proxy", "joined proxy"])
def test_a_program_outlives_a_killed_wrap_if_its_proxy_does(has_proxy):
    code = "import os; from penumbra.cli import wrap; wrap.run('/bin/sh', ['sh', '-c', {!r}], os.environ, has_proxy={})"
    # The program ends at the end of its input, if nothing ends it before.
    shell = "trap 'echo ended; exit' TERM; echo begun; read line; echo $line"
    program = [sys.executable, "-c", code.format(shell, has_proxy)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as wrap:
        assert wrap.stdout.readline() == "begun\n"
        wrap.kill()
        wrap.wait(30)
        if has_proxy:
            assert wrap.stdout.readline() == "ended\n"
        else:
            wrap.stdin.write("goes on\n")
            wrap.stdin.flush()
            assert wrap.stdout.readline() == "goes on\n"


WRAPPED = """import os
from penumbra import cli
from penumbra.cli import wrap
wrap.main = lambda words: wrap.run("/bin/sh", ["sh", *words], os.environ)
cli.main(["wrap", "-c", %r])"""
"""A program that wraps a shell without a proxy."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_the_signal_that_ends_the_program_ends_wrap(number):
    code = WRAPPED % f"kill -{int(number)} $$"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == -number
