"""Wrong arguments of mitmproxy, and the hints that a start prints."""

from pathlib import Path

import pytest
from mitmproxy import options
from mitmproxy.tools import cmdline

from penumbra.cli.certificates import Certificates
from penumbra.cli.start import Server, hints, worded
from penumbra.cli.start import argument_problem as problem
from penumbra.config import settings

MODES = "regular, local, wireguard, reverse:URL, upstream:URL or another one of mitmproxy's"


WRONG = {
    "-p 99999": "listen_port: got 99999, allowed: a port from 0 to 65535",
    "-p -5": "listen_port: got -5, allowed: a port from 0 to 65535",
    "--set listen_port=65536": "listen_port: got 65536, allowed: a port from 0 to 65535",
    "--set =x": "--set: got '=x', allowed: NAME=VALUE",
    "--set confdir=": "confdir: got no value, allowed: a folder",
    "--set listen_port=x": "listen_port: got 'x', allowed: a whole number",
    "--set http2=maybe": "http2: got 'maybe', allowed: true or false",
    "--set penumbra_mode": "penumbra_mode: got no value, allowed: disabled, safe, standard or aggressive",
    "--set penumbra_mode=": "penumbra_mode: got no value, allowed: disabled, safe, standard or aggressive",
    "--set penumbra_page": "penumbra_page: got no value, allowed: off, proxy, a port, or a host and a port, "
    "for example 8765",
    "--set listen_port=": "listen_port: got no value, allowed: a whole number",
    "--set penumbra_hosts": "penumbra_hosts: got no value, allowed: penumbra_hosts=VALUE",
    "--set listen_port=99999999999": "listen_port: got 99999999999, allowed: a port from 0 to 65535",
    "--mode safe": f"mode: got 'safe' (unknown mode), allowed: {MODES}; "
    "a mode of Penumbra's is penumbra_mode=safe",
    "--set mode=loud": f"mode: got 'loud' (unknown mode), allowed: {MODES}",
    "--mode reverse:https://x@99999": f"mode: got 'reverse:https://x@99999' (invalid port: 99999), allowed: {MODES}",
}
RIGHT = (
    *("", "-p 0", "-p 65535", "--set penumbra_hosts=", "--set penumbra_mode=safe", "--set http2"),
    *("--set http2=toggle", "--set of_a_script", "--mode regular@0"),
    *("--set mode=reverse:https://example.com", "--mode upstream:http://p:1 --mode local:app"),
)


def problem_of(words: str) -> str:
    opts = options.Options()
    settings.declare(opts.add_option)
    return problem(opts, cmdline.mitmdump(opts).parse_args(words.split()))


@pytest.mark.parametrize(("words", "line"), [*WRONG.items(), *((words, "") for words in RIGHT)])
def test_a_wrong_argument_is_named_with_the_allowed_values(words: str, line: str) -> None:
    assert problem_of(words) == line


def test_messages_of_the_parser_are_reworded() -> None:
    said = "argument --listen-port/-p: invalid int value: 'abc'"
    assert worded(said) == "--listen-port/-p: got 'abc', allowed: a whole number"
    assert worded("unrecognized arguments: --foo") == "unrecognized arguments: --foo"


CA = Path("/c/mitmproxy-ca-cert.pem")
CERTIFICATES = Certificates(CA, Path("/c/penumbra-ca-bundle.pem"))


@pytest.mark.parametrize(
    ("server", "line"),
    [
        (Server("regular", "", "127.0.0.1", 9000), "  export HTTPS_PROXY=http://127.0.0.1:9000"),
        (Server("upstream", "http://x", "127.0.0.1", 9001), "  export HTTPS_PROXY=http://127.0.0.1:9001"),
        (Server("regular", "", "0.0.0.0", 9002), "  export HTTPS_PROXY=http://127.0.0.1:9002"),
        (Server("regular", "", "::", 9002), "  export HTTPS_PROXY=http://127.0.0.1:9002"),
        (Server("regular", "", "::1", 9003), "  export HTTPS_PROXY=http://[::1]:9003"),
        (Server("regular", "", "192.0.2.7", 9004), "  export HTTPS_PROXY=http://192.0.2.7:9004"),
        (Server("socks5", "", "127.0.0.1", 1080), "  export ALL_PROXY=socks5h://127.0.0.1:1080"),
        (Server("reverse", "https://api.anthropic.com", "127.0.0.1", 8081), "  export ANTHROPIC_BASE_URL=http://127.0.0.1:8081"),
        (Server("reverse", "https://api.openai.com:443", "127.0.0.1", 8082), "  export OPENAI_BASE_URL=http://127.0.0.1:8082/v1"),
        (Server("reverse", "http://localhost:11434", "0.0.0.0", 8083), "Base URL http://127.0.0.1:8083 leads to http://localhost:11434."),
        (Server("reverse", "tcp://db:5432", "127.0.0.1", 8084), "127.0.0.1:8084 leads to tcp://db:5432."),
        (Server("local", "Claude"), "Captured on this machine: Claude. They must trust the CA certificate; nothing else to set."),
        (
            Server("transparent", "", "127.0.0.1", 8080),
            "Mode transparent at 127.0.0.1:8080: lead traffic there, from programs that trust the CA certificate.",
        ),
        (Server("dns", "", "127.0.0.1", 53), "Mode dns at 127.0.0.1:53."),
    ],
)  # fmt: skip
def test_each_mode_has_its_hint(server, line):
    hint_lines = hints([server], CERTIFICATES).split("\n")
    assert hint_lines[0] == f"CA certificate: {CA}"
    assert line in hint_lines
    assert ("HTTPS_PROXY" in "".join(hint_lines)) == (server.kind in ("regular", "upstream"))


def test_several_modes_are_all_named_and_the_certificates_once():
    hint_lines = hints(
        [Server("regular", "", "127.0.0.1", 1), Server("regular", "", "127.0.0.1", 2), Server("local", "x")],
        CERTIFICATES,
    )
    assert hint_lines.count("export NODE_EXTRA_CA_CERTS") == 1
    assert "Another one: export HTTPS_PROXY=http://127.0.0.1:2" in hint_lines
    assert "Captured on this machine: x." in hint_lines


def test_paths_are_quoted_for_a_shell_and_a_missing_bundle_is_explained():
    spaced = Certificates(Path("/a b/ca.pem"), None, "it can't be written")
    hint_lines = hints([Server("regular", "", "127.0.0.1", 1)], spaced)
    assert "  export NODE_EXTRA_CA_CERTS='/a b/ca.pem'\n" in hint_lines
    assert hint_lines.endswith("none for Python SDKs: it can't be written")
    assert "SSL_CERT_FILE" not in hint_lines
