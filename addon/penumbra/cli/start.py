"""mitmdump or mitmweb with the addon in it: on loopback by default, quiet, each failure of a start one line
at the end."""

from __future__ import annotations

import argparse
import asyncio
import errno
import io
import logging
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from mitmproxy import ctx, exceptions, http, options, optmanager
from mitmproxy.addons import errorcheck
from mitmproxy.master import Master
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.tools import cmdline, dump
from mitmproxy.tools import main as tools
from mitmproxy.tools.web.master import WebMaster

from penumbra.addon import Penumbra
from penumbra.cli import FILTER_BEGINNINGS, I_KNOW, certificates, wrap_instead
from penumbra.cli.advisories import Hole, holes
from penumbra.cli.ca import provider_hosts, read
from penumbra.cli.command import WRONG, Failure
from penumbra.cli.proxy_process import Server, hints
from penumbra.config.declaration import CONFIG_OPTION, unknown_options, unprefixed_options
from penumbra.config.option import PREFIX
from penumbra.config.options import groups
from penumbra.config.parsers import listed, parse_mode
from penumbra.errors import one_line
from penumbra.flow import llm_hosts

_INTRODUCTION = (
    "Options of Penumbra, each as --set NAME=VALUE, as an environment variable (PENUMBRA_MODE) or in the "
    f"file that {CONFIG_OPTION} names:"
)


def options_help() -> str:
    """All of them with their help."""
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 110))
    lines = textwrap.wrap(_INTRODUCTION, width)
    for title, members in groups().items():
        lines += ["", f"{title}:"]
        for option in members:
            lines += _entry(option.full_name, option.description, width)
    return "\n".join(lines)


def _entry(name: str, explanation: str, width: int) -> list[str]:
    return [
        f"  {name}",
        *textwrap.wrap(explanation, width, initial_indent=" " * 6, subsequent_indent=" " * 6),
    ]


_PORTS = ("listen_port", "web_port")
_LAST_PORT = 65_535
_NO_NUMBER = re.compile(r"argument (\S+): invalid int value: (.+)")
_MODES = "regular, local, wireguard, reverse:URL, upstream:URL or another one of mitmproxy's"


def worded(message: str) -> str:
    """What the parser of the arguments says of them."""
    return _NO_NUMBER.sub(r"\1: got \2, allowed: a whole number", message)


def argument_problem(opts: options.Options, given: argparse.Namespace) -> str:
    """The first value that mitmproxy will not take; empty: there is none, or mitmproxy says it itself."""
    return next(_problems(opts, given), "")


def _problems(opts: options.Options, given: argparse.Namespace) -> Iterator[str]:
    values = [(name, value) for name in _PORTS if (value := getattr(given, name, None)) is not None]
    values += [("mode", mode) for mode in getattr(given, "mode", None) or ()]
    for setting in given.setoptions:
        name, is_said, value = setting.partition("=")
        # What a script declares is known later.
        if name not in opts:
            continue
        if told := _mistyped(opts, name, value if is_said else None):
            yield told
        values.append((name, value))
    for name, value in values:
        if name in _PORTS and str(value) and not 0 <= int(value) <= _LAST_PORT:
            yield f"{name}: got {value}, allowed: a port from 0 to {_LAST_PORT}"
        if name == "mode" and (reason := _no_mode(value)):
            yield reason


def _mistyped(opts: options.Options, name: str, value: str | None) -> str:
    """Why a value is none for an option; None: none was said."""
    described = optmanager.dump_dicts(opts, [name])[name]
    kind = described["type"]
    if value is None and kind in ("str", "int"):
        words = tuple(word for word in described["choices"] or () if word)
        return f"{name}: got no value, allowed: {listed(words) if words else f'{name}=VALUE'}"
    if value and kind in ("int", "optional int") and not re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
        return f"{name}: got {value!r}, allowed: a whole number"
    if value and kind == "bool" and value not in ("true", "false", "toggle"):
        return f"{name}: got {value!r}, allowed: true or false"
    return ""


def _no_mode(value: str) -> str:
    """Why a text is no mode of mitmproxy's."""
    try:
        ProxyMode.parse(value)
    except ValueError as error:
        meant = f"; a mode of Penumbra's is {PREFIX}mode={value}" if parse_mode(value) is not None else ""
        return f"mode: got {value!r} ({error}), allowed: {_MODES}{meant}"
    return ""


LOOPBACK = "127.0.0.1"
_CONNECTIONS = re.compile(r"(?:client|server) (?:dis)?connect(?: |$)|Streaming (?:request to|response from) ")
_COLUMNS = ("tls", "icon", "path", "comment", "method", "status", "size", "time")
"""Of mitmweb's list of flows: its own, and the comment, which is where Penumbra says what it has done."""
_Parser = Callable[[options.Options], argparse.ArgumentParser]
_log = logging.getLogger(__name__)


class Quiet(logging.Filter):
    """Of what mitmproxy writes to the terminal, leaves out who connects and what is streamed, unless more is
    asked for, and errors of the start, which are told at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.is_starting = True

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        if self.is_starting and record.levelno >= logging.ERROR and not record.exc_info:
            return False
        if ctx.options.termlog_verbosity == "debug" or record.levelno > logging.INFO:
            return True
        return not _CONNECTIONS.match(record.getMessage())


class StartErrors(errorcheck.ErrorCheck):
    """Ends the start at an error, as mitmproxy does, but hands the error on."""

    name = "errorcheck"

    def __init__(self, quiet: Quiet) -> None:
        super().__init__()
        self._quiet = quiet

    async def shutdown_if_errored(self) -> None:
        """Raises Failure if something has failed so far."""
        # Not at once: whatever is being logged comes first.
        await asyncio.sleep(0)
        if self.logger.has_errored:
            # What has begun a local capture in vain can bring the interpreter down as it ends.
            captures = any(mode.startswith("local") for mode in ctx.options.mode)
            raise Failure("\n".join(_errors(self.logger.has_errored)), is_abrupt=captures)

    def finish(self) -> None:
        """It runs: errors are logged like all else."""
        self.logger.uninstall()
        self._quiet.is_starting = False


class Starter(Protocol):
    """Who starts the proxy."""

    is_wrap: bool
    """It is for one program, and ends with it."""

    def listens(
        self, servers: Sequence[Server], trusted: certificates.Certificates, hosts: Sequence[str]
    ) -> None:
        """It listens; called in its event loop. `hosts`: those that count among LLM hosts by the settings."""
        ...

    def ended(self, totals: Mapping[str, Any]) -> None:
        """It has ended; what it has done."""
        ...


class User:
    """Who is told in a terminal how to point an agent at the proxy."""

    is_wrap = False

    def listens(
        self, servers: Sequence[Server], trusted: certificates.Certificates, hosts: Sequence[str]
    ) -> None:
        """Says so."""
        if ctx.options.termlog_verbosity != "error":
            print(hints(servers, trusted), flush=True)

    def ended(self, totals: Mapping[str, Any]) -> None:
        """The figures were there to see."""


class _Greeting:
    """The ports are known once all addons run, also those that the system chose."""

    def __init__(self, starter: Starter, trusted: certificates.Certificates, hosts: Sequence[str]) -> None:
        self._starter = starter
        self._certificates = trusted
        self._hosts = hosts

    def running(self) -> None:
        """It listens."""
        self._starter.listens(servers(), self._certificates, self._hosts)


class _OtherPlainHttp:
    """What a wrapped program asks of other hosts in plain HTTP goes on as it arrives: nobody reads it."""

    def __init__(self, addon: Penumbra) -> None:
        self._addon = addon

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A request begins."""
        if not llm_hosts.may_be(flow, self._addon.settings.hosts):
            flow.request.stream = True

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """A response begins."""
        if flow.response is not None and not llm_hosts.may_be(flow, self._addon.settings.hosts):
            flow.response.stream = True


class _Face:
    """The arguments of one start, and what of mitmproxy they go to."""

    def __init__(self, command: str, given: Sequence[str], starter: Starter) -> None:
        self.command = command
        self.given = [word for word in given if word != I_KNOW]
        self.is_informed = I_KNOW in given
        self.starter = starter
        self.addon = Penumbra()
        self.addon.is_embedded = True
        self.addon.is_wrapped = starter.is_wrap
        self.quiet = Quiet()

    def furnish(self, master: Master) -> None:
        """Put our addon in where scripts are loaded, and our defaults in the place of mitmproxy's."""
        _add_behind(master, "proxyserver", self.addon)
        if self.starter.is_wrap:
            master.addons.add(_OtherPlainHttp(self.addon))
        master.addons.remove(master.addons.get("errorcheck"))
        master.addons.add(StartErrors(self.quiet))
        master.addons.get("termlog").logger.addFilter(self.quiet)
        master.options.update(listen_host=LOOPBACK)
        master.options.update_known(flow_detail=0, web_columns=_COLUMNS)

    def parser(self, opts: options.Options) -> argparse.ArgumentParser:
        """mitmproxy's own parser, with our options in its help."""
        make: _Parser = cmdline.mitmweb if self.command == "web" else cmdline.mitmdump
        parser = make(opts)
        parser.prog = f"penumbra {self.command}"
        # One line, and no usage in front of it.
        parser.error = self._refuse  # type: ignore[method-assign]
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = options_help()
        parser.set_defaults(filter_args=[])
        try:
            # Here first, for an error is to be the last line, and help no failure.
            problem = argument_problem(opts, parser.parse_args(self.given))
        except SystemExit as ended:
            raise _Done(ended.code) from None
        if problem:
            raise Failure(problem, code=WRONG)
        return parser

    def _refuse(self, message: str) -> NoReturn:
        message = worded(message)
        raise Failure(f"{self.command}: {message} (`penumbra {self.command} --help` names all)", code=2)

    def settled(self, args: argparse.Namespace) -> dict[str, Any]:
        """All options are read: the last look before anything is opened. Raises Failure."""
        words = list(args.filter_args)
        if words and not words[0].startswith(FILTER_BEGINNINGS):
            raise Failure(
                f"{words[0]!r} is no filter expression such as '~u {words[0]}'; {wrap_instead(words)}", 2
            )
        unknown = unknown_options(ctx.options.deferred)
        if not ctx.options.scripts:  # which may declare options of their own, and are not loaded yet
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
        # What it says is believed at once: the figures of this process must be there by then.
        _add_behind(ctx.master, "penumbra", greeting)
        expression = " ".join(words)
        names = ("save_stream_filter", "readfile_filter", "dumper_filter") if words else ()
        return dict.fromkeys(names, expression)

    def _certificates(self) -> certificates.Certificates:
        """The CA in use, which may sign for the hosts that are decrypted. Raises Failure."""
        settings, confdir = self.addon.settings, ctx.options.confdir
        any_host = settings.intercept == "all"
        trusted = certificates.prepare(confdir, hosts=None if any_host else settings.hosts)
        if confdir == certificates.DEFAULT:
            ctx.options.update(confdir=str(trusted.ca.parent))
        if trusted.bundle is not None and not ctx.options.ssl_verify_upstream_trusted_ca:
            # Where a company reads all traffic, its certificate is among the system's.
            ctx.options.update(ssl_verify_upstream_trusted_ca=str(trusted.bundle))
        lacking = ["any host"] if any_host and read(trusted.ca.parent).names else []
        lacking = lacking or read(trusted.ca.parent).lacks((*provider_hosts(), *settings.hosts))
        if lacking:
            _log.warning(
                f"The CA certificate {trusted.ca} may not sign for {', '.join(lacking)}: clients will refuse "
                "these. `penumbra ca make --again` makes one that may, to be trusted anew."
            )
        return trusted


class _Done(Exception):
    """All has been said; what comes with it is an exit code."""


def start(command: str, given: Sequence[str], *, starter: Starter | None = None) -> int:
    """Runs mitmdump or mitmweb until it ends; the exit code. Raises Failure."""
    face = _Face(command, given, starter or User())
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What is said stands in a file or a pipe when it is said, not once a few KB have come together.
        sys.stdout.reconfigure(line_buffering=True)

    class Dump(dump.DumpMaster):
        def __init__(self, opts: options.Options) -> None:
            super().__init__(opts)
            face.furnish(self)

    class Web(WebMaster):
        def __init__(self, opts: options.Options) -> None:
            super().__init__(opts)
            face.furnish(self)

    # mitmproxy's own errors of options begin with the name of the program.
    sys.argv[0] = "penumbra"
    try:
        tools.run(Web if command == "web" else Dump, face.parser, face.given, face.settled)
    except _Done as done:
        return int(done.args[0] or 0)
    except OSError as error:
        raise Failure(_web_error(error)) from None
    except SystemExit as ended:
        if isinstance(ended.__context__, exceptions.OptionsError):
            # mitmproxy has said which option it is, and ends as it does where a port is taken.
            return WRONG
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    face.starter.ended(face.addon.metrics.totals())
    return 0


def servers() -> list[Server]:
    """The modes of the proxy that runs."""
    return [
        Server(
            instance.mode.type_name,
            instance.mode.data,
            *next(iter(sorted(instance.listen_addrs, key=lambda address: ":" in address[0])), ("", 0))[:2],
        )
        for instance in ctx.master.addons.get("proxyserver").servers
    ]


def _add_behind(master: Master, name: str, addon: object) -> None:
    master.addons.add(addon)
    chain = master.addons.chain
    chain.insert(chain.index(master.addons.get(name)) + 1, chain.pop())


def _errors(records: Sequence[logging.LogRecord]) -> list[str]:
    """One line for each thing that failed."""
    failed = [
        instance for instance in ctx.master.addons.get("proxyserver").servers if instance.last_exception
    ]
    lines = [_server_error(instance.mode, instance.last_exception) for instance in failed]
    told = {str(instance.last_exception) for instance in failed}
    return lines + [
        one_line(record.getMessage().partition("\n")[0])
        for record in records
        if record.getMessage() not in told
    ]


def _server_error(mode: Any, error: BaseException) -> str:
    """Why a mode of the proxy can't run, and what to do."""
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
"""asyncio's words, which come without a number."""


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
        "Penumbra leads nobody to mitmweb's port, but can't vouch for the rest"
    )
