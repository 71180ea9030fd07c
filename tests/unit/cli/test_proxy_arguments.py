"""What is said of wrong arguments of mitmproxy's programs."""

from __future__ import annotations

from mitmproxy import options
from mitmproxy.tools import cmdline

from penumbra.cli.start import argument_problem as problem
from penumbra.cli.start import worded
from penumbra.config import settings
from support.cases import each

MODES = "regular, local, wireguard, reverse:URL, upstream:URL or another one of mitmproxy's"


class Loader:
    def __init__(self, opts: options.Options) -> None:
        self.add_option = opts.add_option


WRONG = {
    "-p 99999": "listen_port: got 99999, allowed: a port from 0 to 65535",
    "-p -5": "listen_port: got -5, allowed: a port from 0 to 65535",
    "--set listen_port=65536": "listen_port: got 65536, allowed: a port from 0 to 65535",
    "--set listen_port=x": "listen_port: got 'x', allowed: a whole number",
    "--set http2=maybe": "http2: got 'maybe', allowed: true or false",
    "--set penumbra_mode": "penumbra_mode: got no value, allowed: disabled, safe, standard or aggressive",
    "--set penumbra_hosts": "penumbra_hosts: got no value, allowed: penumbra_hosts=VALUE",
    "--mode safe": f"mode: got 'safe' (unknown mode), allowed: {MODES}; "
    "a mode of Penumbra's is penumbra_mode=safe",
    "--set mode=loud": f"mode: got 'loud' (unknown mode), allowed: {MODES}",
    "--mode reverse:https://x@99999": f"mode: got 'reverse:https://x@99999' (invalid port: 99999), allowed: {MODES}",
}
RIGHT = (
    *("", "-p 0", "-p 65535", "--set penumbra_mode=", "--set penumbra_mode=safe", "--set http2"),
    *(
        "--set http2=toggle",
        "--set of_a_script",
        "--mode regular@0",
    ),
    *(
        "--set mode=reverse:https://example.com",
        "--mode upstream:http://p:1 --mode local:app",
        "--set listen_port=",
    ),
)


def told(words: str) -> str:
    opts = options.Options()
    settings.declare(Loader(opts))
    return problem(opts, cmdline.mitmdump(opts).parse_args(words.split()))


@each(("words", "line"), [*WRONG.items(), *((words, "") for words in RIGHT)])
def test_a_wrong_one_is_named_with_what_is_allowed(words: str, line: str) -> None:
    assert told(words) == line


def test_what_the_parser_says() -> None:
    said = "argument --listen-port/-p: invalid int value: 'abc'"
    assert worded(said) == "--listen-port/-p: got 'abc', allowed: a whole number"
    assert worded("unrecognized arguments: --foo") == "unrecognized arguments: --foo"
