"""What `penumbra run` says about pointing an agent at it follows its arguments."""

from pathlib import Path

import pytest

from penumbra.cli import hints

BUNDLE = Path("/c/penumbra-ca-bundle.pem")


@pytest.mark.parametrize(
    ("arguments", "port"),
    [
        ([], "8080"),
        (["-p", "9000"], "9000"),
        (["--listen-port", "9001"], "9001"),
        (["--listen-port=9002"], "9002"),
        (["--set", "listen_port=9003"], "9003"),
        (["-p", "1", "--set", "penumbra_mode=safe"], "1"),
    ],
)
def test_the_port(arguments, port):
    assert f"HTTPS_PROXY=http://127.0.0.1:{port}\n" in hints(arguments, BUNDLE)


def test_other_modes_get_the_certificate_only():
    for arguments in (["--mode", "local"], ["-m", "reverse:http://x"], ["--mode=local"]):
        assert hints(arguments, BUNDLE) == "CA certificate: /c/mitmproxy-ca-cert.pem"
