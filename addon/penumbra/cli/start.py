"""This module starts mitmdump or mitmweb with the addon. The proxy listens on loopback by default and prints
little. If the start fails, the last lines say why."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import io
import ipaddress
import logging
import os
import re
import shlex
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import orjson
from mitmproxy import ctx, exceptions, http, options, optmanager
from mitmproxy.addons import errorcheck
from mitmproxy.certs import CertStore
from mitmproxy.master import Master
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.tools import cmdline, dump
from mitmproxy.tools import main as tools
from mitmproxy.tools.web.master import WebMaster

from penumbra.addon import Penumbra
from penumbra.cli import certificates
from penumbra.cli.advisories import Hole, holes
from penumbra.cli.ca import TooWide, make, provider_hosts, read
from penumbra.cli.certificates import NAME, Certificates, ca_file, certificate_file, own_folder
from penumbra.cli.command import FILTER_BEGINNINGS, I_KNOW, WRONG, Failure, wrap_instead
from penumbra.config.options import OPTIONS, PREFIX, groups
from penumbra.config.parsers import SettingsError, parse_mode
from penumbra.config.settings import CONFIG_OPTION, unknown_options, unprefixed_options
from penumbra.errors import one_line
from penumbra.flow import destination
from penumbra.metrics import totals

_INTRODUCTION = (
    "Options of Penumbra, each as --set NAME=VALUE, as an environment variable (PENUMBRA_MODE) or in the "
    f"file that {CONFIG_OPTION} names:"
)


def options_help() -> str:
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 110))
    lines, margin = textwrap.wrap(_INTRODUCTION, width), " " * 6
    for title, members in groups().items():
        lines += ["", f"{title}:"]
        for option in members:
            lines.append(f"  {option.full_name}")
            lines += textwrap.wrap(option.description, width, initial_indent=margin, subsequent_indent=margin)
    return "\n".join(lines)


_PORTS = ("listen_port", "web_port")
_LAST_PORT = 65_535
_NUMBER = re.compile(r"-?\d{1,99}", re.ASCII)
_NO_NUMBER = re.compile(r"argument (\S+): invalid int value: (.+)")
_OURS = {option.full_name: option for option in OPTIONS}
_MODES = "regular, local, wireguard, reverse:URL, upstream:URL or another one of mitmproxy's"


def worded(message: str) -> str:
    """Return an error message of the argument parser in Penumbra's wording."""
    return _NO_NUMBER.sub(r"\1: got \2, allowed: a whole number", message)


def argument_problem(opts: options.Options, parsed: argparse.Namespace) -> str:
    """Return an error for the first bad value; empty without a bad value, or if mitmproxy reports it."""
    return next(_problems(opts, parsed), "")


def _problems(opts: options.Options, parsed: argparse.Namespace) -> Iterator[str]:
    values = [(name, value) for name in _PORTS if (value := getattr(parsed, name, None)) is not None]
    values += [("mode", mode) for mode in getattr(parsed, "mode", None) or ()]
    for setting in parsed.setoptions:
        name, has_value, value = setting.partition("=")
        if not name:
            yield f"--set: got {setting!r}, allowed: NAME=VALUE"
        if name == "confdir" and not value:
            # mitmproxy would write its CA, with the private key, into the working folder.
            yield "confdir: got no value, allowed: a folder"
        # Options that a script declares are not known yet.
        if name not in opts:
            continue
        if problem := _mistyped(opts, name, value if has_value else None):
            yield problem
        values.append((name, value))
    for name, value in values:
        if name in _PORTS and _NUMBER.fullmatch(str(value)) and not 0 <= int(value) <= _LAST_PORT:
            yield f"{name}: got {value}, allowed: a port from 0 to {_LAST_PORT}"
        if name == "mode" and (reason := _no_mode(value)):
            yield reason


def _mistyped(opts: options.Options, name: str, value: str | None) -> str:
    """Return why a value does not fit the type of an option; empty if the value fits. Older versions of
    mitmproxy name the value only, not the option."""
    kind = optmanager.dump_dicts(opts, [name])[name]["type"]
    got = repr(value) if value else "no value"
    if kind in ("int", "optional int") and not _NUMBER.fullmatch(value or ""):
        return f"{name}: got {got}, allowed: a whole number"
    if not value and (option := _OURS.get(name)) is not None:
        try:
            option.row.parser.read("")
        except SettingsError as error:
            return f"{name}: got {got}, allowed: {error}"
    if value is None and kind == "str":
        return f"{name}: got {got}, allowed: {name}=VALUE"
    if value and kind == "bool" and value not in ("true", "false", "toggle"):
        return f"{name}: got {got}, allowed: true or false"
    return ""


def _no_mode(value: str) -> str:
    """Return why a text is not a proxy mode of mitmproxy; empty if the text is a mode."""
    try:
        ProxyMode.parse(value)
    except ValueError as error:
        meant = f"; a mode of Penumbra's is {PREFIX}mode={value}" if parse_mode(value) is not None else ""
        return f"mode: got {value!r} ({error}), allowed: {_MODES}{meant}"
    return ""


LOOPBACK = "127.0.0.1"
_CONNECTIONS = re.compile(r"(?:client|server) (?:dis)?connect(?: |$)|Streaming (?:request to|response from) ")
_COLUMNS = ("tls", "icon", "path", "comment", "method", "status", "size", "time")
"""Columns of mitmweb's list of flows: the default columns, and the comment, which Penumbra writes."""
_Parser = Callable[[options.Options], argparse.ArgumentParser]
_log = logging.getLogger(__name__)


class Quiet(logging.Filter):
    """A `Quiet` keeps two kinds of log records away from the terminal: records about connections and streams,
    and errors of the start. The errors are reported at the end of the start."""

    def __init__(self) -> None:
        super().__init__()
        self.is_starting = True

    def filter(self, record: logging.LogRecord) -> bool:
        if self.is_starting and record.levelno >= logging.ERROR and not record.exc_info:
            return False
        if ctx.options.termlog_verbosity == "debug" or record.levelno > logging.INFO:
            return True
        return not _CONNECTIONS.match(record.getMessage())


class StartErrors(errorcheck.ErrorCheck):
    """A `StartErrors` raises Failure after an error of the start. mitmproxy's addon would end the process."""

    name = "errorcheck"

    def __init__(self, quiet: Quiet) -> None:
        super().__init__()
        self._quiet = quiet

    async def shutdown_if_errored(self) -> None:
        """Raise Failure if an error was logged."""
        # Other tasks may be about to log errors, so this method lets them run first.
        await asyncio.sleep(0)
        if self.logger.has_errored:
            # After a local capture that failed to begin, the interpreter may crash at its exit.
            captures = any(mode.startswith("local") for mode in ctx.options.mode)
            raise Failure("\n".join(_errors(self.logger.has_errored)), is_abrupt=captures)

    def finish(self) -> None:
        """End the collection of errors, so that later errors are logged like other records."""
        self.logger.uninstall()
        self._quiet.is_starting = False


class Starter:
    """A `Starter` reports a start: it prints hints for a user at a terminal."""

    is_wrap = False
    """True if the proxy serves one program and ends with that program."""

    def listens(self, servers: Sequence[Server], trusted: Certificates, hosts: Sequence[str]) -> None:
        """Report, in the event loop, that the proxy listens. `hosts` are the LLM hosts of the settings."""
        if ctx.options.termlog_verbosity != "error":
            print(hints(servers, trusted), flush=True)

    def ended(self, totals: Mapping[str, Any]) -> None:
        """Do nothing, because the terminal has shown the totals. A subclass may report the totals here."""


class _Greeting:
    """A `_Greeting` is an addon that reports all ports, including ports that the system chose."""

    def __init__(self, starter: Starter, trusted: Certificates, hosts: Sequence[str]) -> None:
        self._starter = starter
        self._certificates = trusted
        self._hosts = hosts

    def running(self) -> None:
        self._starter.listens(servers(), self._certificates, self._hosts)


class _OtherPlainHttp:
    """An `_OtherPlainHttp` streams plain HTTP requests of a wrapped program to hosts other than LLM hosts."""

    def __init__(self, addon: Penumbra) -> None:
        self._addon = addon

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        if not destination.is_llm_host(flow, self._addon.settings.hosts):
            flow.request.stream = True

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response is not None and not destination.is_llm_host(flow, self._addon.settings.hosts):
            flow.response.stream = True


class _Setup:
    """A `_Setup` applies the arguments of one start to mitmproxy."""

    def __init__(self, command: str, arguments: Sequence[str], starter: Starter) -> None:
        self.command = command
        self.arguments = [word for word in arguments if word != I_KNOW]
        self.is_informed = I_KNOW in arguments
        self.starter = starter
        self.addon = Penumbra()
        self.addon.is_embedded = True
        self.addon.is_wrapped = starter.is_wrap
        self.quiet = Quiet()

    def add_to(self, master: Master) -> None:
        """Add Penumbra's addon where mitmproxy adds scripts, and set Penumbra's defaults."""
        _add_after(master, "proxyserver", self.addon)
        if self.starter.is_wrap:
            master.addons.add(_OtherPlainHttp(self.addon))
        master.addons.remove(master.addons.get("errorcheck"))
        master.addons.add(StartErrors(self.quiet))
        master.addons.get("termlog").logger.addFilter(self.quiet)
        master.options.update(listen_host=LOOPBACK)
        master.options.update_known(flow_detail=0, web_columns=_COLUMNS)

    def parser(self, opts: options.Options) -> argparse.ArgumentParser:
        """Return mitmproxy's own parser, with Penumbra's options in the help. Parsing raises Failure."""
        make: _Parser = cmdline.mitmweb if self.command == "web" else cmdline.mitmdump
        parser = make(opts)
        parser.prog = f"penumbra {self.command}"
        # mitmproxy's parser would print its usage before an error.
        parser.error = self._refuse  # type: ignore[method-assign]
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = options_help()
        parser.set_defaults(filter_args=[])
        try:
            # Arguments are parsed here first. An error is thus the last printed line, and the help is no
            # failure.
            problem = argument_problem(opts, parser.parse_args(self.arguments))
        except SystemExit as ended:
            raise _Done(ended.code) from None
        if problem:
            raise Failure(problem, code=WRONG)
        return parser

    def _refuse(self, message: str) -> NoReturn:
        message = worded(message)
        raise Failure(f"{self.command}: {message} (`penumbra {self.command} --help` names all)", code=2)

    def checked(self, args: argparse.Namespace) -> dict[str, Any]:
        """Check all options before anything is opened, and return the options to set. Raises Failure."""
        words = list(args.filter_args)
        if words and not words[0].startswith(FILTER_BEGINNINGS):
            raise Failure(
                f"{words[0]!r} is no filter expression such as '~u {words[0]}'; {wrap_instead(words)}", 2
            )
        unknown = unknown_options(ctx.options.deferred)
        if not ctx.options.scripts:  # scripts may declare options of their own, and are not loaded yet
            unknown += unprefixed_options(ctx.options.deferred, ctx.options.keys())
        if unknown:
            raise Failure("\n".join(unknown), code=2)
        if (
            self.command == "web"
            and not self.is_informed
            and (shown := [hole for hole in holes() if hole.shows_flows])
        ):
            raise Failure(_too_open(shown[0]), code=2)
        self.addon.configure(set(ctx.options.keys()))
        greeting = _Greeting(self.starter, self._certificates(), self.addon.settings.hosts)
        # The file with this process's figures must exist before `greeting` reports the ports.
        _add_after(ctx.master, "penumbra", greeting)
        expression = " ".join(words)
        names = ("save_stream_filter", "readfile_filter", "dumper_filter") if words else ()
        return dict.fromkeys(names, expression)

    def _certificates(self) -> Certificates:
        """Return the CA in use, and log the hosts that it may not sign for. Raises Failure."""
        settings, confdir = self.addon.settings, ctx.options.confdir
        any_host = settings.intercept == "all"
        trusted = prepare_ca(confdir, hosts=None if any_host else settings.hosts)
        if confdir == certificates.DEFAULT:
            ctx.options.update(confdir=str(trusted.ca.parent))
        if trusted.bundle is not None and not ctx.options.ssl_verify_upstream_trusted_ca:
            # If a company decrypts all traffic, mitmproxy must trust the company's certificate. The bundle
            # contains this certificate, because the system's certificates do.
            ctx.options.update(ssl_verify_upstream_trusted_ca=str(trusted.bundle))
        lacking = ["any host"] if any_host and read(trusted.ca.parent).names else []
        lacking = lacking or read(trusted.ca.parent).lacks((*provider_hosts(), *settings.hosts))
        if lacking:
            _log.warning(
                f"The CA certificate {trusted.ca} may not sign for {', '.join(lacking)}: clients will refuse "
                "these. `penumbra ca make --again` makes one that may, to be trusted anew."
            )
        return trusted


def prepare_ca(
    confdir: str = certificates.DEFAULT,
    environment: Mapping[str, str] = os.environ,
    hosts: Iterable[str] | None = (),
) -> Certificates:
    """Make the CA if there is none, and the bundle if it is outdated. A new CA may sign for the hosts of the
    rules and for the globs in `hosts`, or for all hosts if `hosts` is None. Raises Failure."""
    folder = certificates.folder_in_use(confdir, environment)
    ca = certificate_file(folder)
    try:
        if folder == own_folder(environment) and not ca_file(folder).exists():
            make(folder, hosts)
        CertStore.from_store(folder, NAME, 2048)
        ca.read_bytes()
    except TooWide as error:
        key = f"{PREFIX}hosts" if error.glob in (hosts or ()) else "providers.yaml"
        raise Failure(f"{key}: {error}; `penumbra ca make --any-host` allows any host", WRONG) from None
    except OSError as error:
        raise Failure(
            f"the CA certificate can't be made or read in {folder} ({error.strerror or error}): name "
            "another folder with --set confdir=FOLDER"
        ) from None
    except ValueError as error:
        raise Failure(
            f"{ca_file(folder)} is no CA certificate with its key ({str(error)[:80]}): move it "
            "away, and a new one is made"
        ) from None
    return certificates.with_bundle(ca)


class _Done(Exception):
    """A `_Done` ends the start with an exit code."""


def start(command: str, arguments: Sequence[str], *, starter: Starter | None = None) -> int:
    """Run mitmdump or mitmweb, and return its exit code. Raises Failure."""
    setup = _Setup(command, arguments, starter or Starter())
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Each line must reach a file or a pipe at once.
        sys.stdout.reconfigure(line_buffering=True)

    class Dump(dump.DumpMaster):
        def __init__(self, opts: options.Options) -> None:
            super().__init__(opts)
            setup.add_to(self)

    class Web(WebMaster):
        def __init__(self, opts: options.Options) -> None:
            super().__init__(opts)
            setup.add_to(self)

    # mitmproxy prints this name at the beginning of its errors about options.
    sys.argv[0] = "penumbra"
    try:
        tools.run(Web if command == "web" else Dump, setup.parser, setup.arguments, setup.checked)
    except _Done as done:
        return int(done.args[0] or 0)
    except OSError as error:
        raise Failure(_web_error(error)) from None
    except SystemExit as ended:
        if isinstance(ended.__context__, exceptions.OptionsError):
            # mitmproxy has printed which option is wrong. mitmproxy's exit code is not used, because the same
            # code of `penumbra` means that the port is in use.
            return WRONG
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    setup.starter.ended(totals.record(setup.addon.journal))
    return 0


def servers() -> list[Server]:
    """Return the modes of the running proxy."""
    return [
        Server(
            instance.mode.type_name,
            instance.mode.data,
            *next(iter(sorted(instance.listen_addrs, key=lambda address: ":" in address[0])), ("", 0))[:2],
        )
        for instance in ctx.master.addons.get("proxyserver").servers
    ]


def _add_after(master: Master, name: str, addon: object) -> None:
    master.addons.add(addon)
    chain = master.addons.chain
    chain.insert(chain.index(master.addons.get(name)) + 1, chain.pop())


def _errors(records: Sequence[logging.LogRecord]) -> list[str]:
    failed = [
        instance for instance in ctx.master.addons.get("proxyserver").servers if instance.last_exception
    ]
    lines = [_server_error(instance.mode, instance.last_exception) for instance in failed]
    known = {str(instance.last_exception) for instance in failed}
    return lines + [
        one_line(record.getMessage().partition("\n")[0])
        for record in records
        if record.getMessage() not in known
    ]


def _server_error(mode: Any, error: BaseException) -> str:
    """Return why a mode of the proxy can't run, with advice."""
    if mode.type_name == "local":
        return f"local capture can't be started ({_first_line(error)}): {_LOCAL}"
    host, port = mode.listen_host(ctx.options.listen_host), mode.listen_port(ctx.options.listen_port)
    place = f"port {port} on {host or 'all addresses'}"
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        head = mode.full_spec.rpartition("@")[0]
        at = f"{host}:{port + 1}" if mode.custom_listen_host else port + 1
        other = f"--mode {head}@{at}" if mode.custom_listen_port else f"-p {port + 1}"
        return f"{place} is taken, perhaps by another proxy: {other} takes another one"
    if number in (errno.EACCES, errno.EPERM):
        return f"{place} may not be opened by this user: -p names another one, above 1023"
    if number == errno.EADDRNOTAVAIL or _NO_ADDRESS in str(error):
        return f"this machine has no address {host}: --listen-host names another one"
    return _first_line(error)


_LOCAL = "it needs the rights of an administrator, and a system and a mitmproxy that can do it"
_NO_ADDRESS = "could not bind on any address"
"""The text of an asyncio error without an `errno`."""


def _first_line(error: BaseException) -> str:
    return one_line(str(getattr(error, "strerror", None) or error).partition("\n")[0])


def _web_error(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE and "web_port" in ctx.options:
        port = ctx.options.web_port
        return f"mitmweb's port {port} is taken, perhaps by another one: --web-port {port + 1} is another"
    return _first_line(error)


def _too_open(hole: Hole) -> str:
    return (
        f"mitmweb of {hole.package} {hole.version} has a known hole ({hole.id}: {hole.what}). "
        f"{hole.remedy[0].upper()}{hole.remedy[1:]}; or add {I_KNOW}: "
        "Penumbra lets no client through to mitmweb's port, but can't prevent other ways"
    )


_BASES = {
    "api.anthropic.com": ("ANTHROPIC_BASE_URL", ""),
    "api.openai.com": ("OPENAI_BASE_URL", "/v1"),
    "generativelanguage.googleapis.com": ("GOOGLE_GEMINI_BASE_URL", ""),
}
"""By a provider's host: the variable from which agents read the base URL, and the path in this URL."""
_ALL_TRAFFIC = ("transparent", "wireguard", "tun")


@dataclass(frozen=True, slots=True)
class Server:
    """A `Server` is one running mode of the proxy."""

    kind: str
    """The name of the mode, such as `regular`, `reverse` or `local`."""
    data: str = ""
    """Part of the mode after its colon: a URL, or names of programs."""
    host: str = ""
    """Address on which the mode listens; empty if it does not listen."""
    port: int = 0

    @property
    def place(self) -> str:
        """Return the host and port by which other programs on this machine reach the server."""
        return f"{_reachable(self.host)}:{self.port}"


def hints(servers: Iterable[Server], certificates: Certificates) -> str:
    """Return hints for the user, line by line."""
    lines = [f"CA certificate: {certificates.ca}"]
    proxies = [server for server in servers if server.kind in ("regular", "upstream")]
    for server in servers:
        if server in proxies[:1]:
            lines += _proxy(server, certificates)
        elif server in proxies:
            lines.append(f"Another one: export HTTPS_PROXY=http://{server.place}")
        else:
            lines += _other(server)
    return "\n".join(lines)


def _proxy(server: Server, certificates: Certificates) -> list[str]:
    """Return a hint with lines to paste into a shell. Comments are left out, since an interactive zsh would
    run them."""
    ca = shlex.quote(str(certificates.ca))
    lines = [
        "Point an agent at Penumbra, in the shell that starts the agent:",
        f"  export HTTPS_PROXY=http://{server.place}",
        f"  export NODE_EXTRA_CA_CERTS={ca}",
        f"  export CODEX_CA_CERTIFICATE={ca}",
    ]
    if certificates.bundle is not None:
        lines.append(f"  export SSL_CERT_FILE={shlex.quote(str(certificates.bundle))}")
    lines.append("NODE_EXTRA_CA_CERTS is for Claude Code, Gemini CLI and other Node agents,")
    if certificates.bundle is None:
        return [*lines, f"CODEX_CA_CERTIFICATE for Codex; none for Python SDKs: {certificates.problem}"]
    return [*lines, "CODEX_CA_CERTIFICATE for Codex, SSL_CERT_FILE for Python SDKs."]


def _other(server: Server) -> list[str]:
    if server.kind == "reverse":
        return _reverse(server)
    if server.kind == "local":
        programs = server.data or "all programs"
        return [
            f"Captured on this machine: {programs}. They must trust the CA certificate; nothing else to set."
        ]
    if server.kind == "socks5":
        return [
            "Point an agent that speaks SOCKS at Penumbra, and let it trust the CA certificate:",
            f"  export ALL_PROXY=socks5h://{server.place}",
        ]
    if server.kind in _ALL_TRAFFIC:
        where = f" at {server.place}" if server.host else ""
        return [
            f"Mode {server.kind}{where}: lead traffic there, from programs that trust the CA certificate."
        ]
    return [f"Mode {server.kind} at {server.place}."]


def _reverse(server: Server) -> list[str]:
    scheme, _, rest = server.data.rpartition("://")
    host = rest.partition("/")[0].partition(":")[0]
    if scheme not in ("http", "https", ""):
        return [f"{server.place} leads to {server.data}."]
    variable, path = _BASES.get(host, ("", ""))
    if variable:
        return [
            f"Point an agent at Penumbra by its base URL, which leads to {host}:",
            f"  export {variable}=http://{server.place}{path}",
        ]
    return [f"Base URL http://{server.place} leads to {server.data}."]


def _reachable(host: str) -> str:
    """Return the address by which a program on this machine reaches a listener."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.is_unspecified:
        return "127.0.0.1"
    return f"[{address}]" if address.version == 6 else str(address)


_PROXIES = ("regular", "upstream")


class _Wrap(Starter):
    """A `_Wrap` reports to the process that started this proxy for one program."""

    is_wrap = True

    def __init__(self, report: int) -> None:
        self._report = report

    def tell(self, **line: Any) -> None:
        """Write a line of JSON. A closed pipe is not an error."""
        with contextlib.suppress(OSError):
            os.write(self._report, orjson.dumps(line) + b"\n")

    def listens(self, servers: Sequence[Server], trusted: Certificates, hosts: Sequence[str]) -> None:
        """Report the addresses, the CA and the LLM hosts of the settings."""
        end = partial(asyncio.get_running_loop().call_soon_threadsafe, ctx.master.shutdown)
        threading.Thread(target=_wait, args=(end,), daemon=True).start()
        proxy = next((server.place for server in servers if server.kind in _PROXIES), "")
        web = ""
        if "web_port" in ctx.options:
            web = getattr(ctx.master, "web_url", f"http://127.0.0.1:{ctx.options.web_port}/")
        self.tell(listens={"proxy": proxy, "ca": str(trusted.ca), "web": web, "hosts": list(hosts)})

    def ended(self, totals: Mapping[str, Any]) -> None:
        self.tell(ended=totals)


def _wait(end: Callable[[], object]) -> None:
    """Call `end` when standard input is closed. The function runs in a thread, since not every event loop can
    wait for a pipe."""
    while os.read(0, 4096):
        pass
    # The event loop may already have ended.
    with contextlib.suppress(RuntimeError):
        end()


def serve_wrapped() -> int:
    """Run a wrapped program's proxy on the pipes that `proxy_process` describes, and return its exit code."""
    wrap = _Wrap(os.dup(1))
    os.dup2(2, 1)
    # Each call reads one byte, since a buffer would take bytes that `_wait` must read.
    asked = orjson.loads(_line(0))
    try:
        code = start(asked["command"], asked["arguments"], starter=wrap)
    except Failure as failure:
        wrap.tell(failed=str(failure), code=failure.code)
        return failure.code
    if code:
        # mitmproxy has written the reason to the log.
        wrap.tell(failed="", code=code)
    return code


def _line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return line
