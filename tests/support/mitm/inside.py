"""A script that the tests load into mitmdump, beside the addon or alone. The script connects every request to
the test provider, for any host. A test can run a mitmproxy command by `POST /.command` with the command as
body, to any host."""

import asyncio
import builtins
import collections
import gc
import json
import os
import socket
import sys
import threading

from cachetools import Cache
from mitmproxy import command, ctx, exceptions, http

COMMAND_PATH = "/.command"
FORGETFUL = "KEEPS_NO_FLOWS"
"""Variable that is set where memory is measured, since a user's mitmdump keeps no flows."""
_LARGE = 1_000_000
PAUSE = 0.02
"""Seconds between two tries of a hidden request that failed; a user's proxy takes longer."""


class Steps:
    """A `Steps` records which functions of the package are called, and lets one of them raise each time. A
    separate socket receives its commands, since the failing function may be one that forwards requests. Needs
    Python 3.12."""

    ID = 4

    def __init__(self):
        self.seen, self.broken, self.raised, self.server = {}, "", None, None

    def watch(self):
        events = sys.monitoring
        events.use_tool_id(self.ID, "steps")
        events.register_callback(self.ID, events.events.PY_START, self.started)
        events.set_events(self.ID, events.events.PY_START)
        listening = socket.create_server(("127.0.0.1", 0))
        self.server = asyncio.create_task(asyncio.start_server(self.serve, sock=listening))
        return listening.getsockname()[1]

    async def serve(self, reader, writer):
        while line := (await reader.readline()).decode().split():
            if line[0] == "break":
                self.raised = getattr(builtins, line[2], None) or getattr(asyncio, line[2])
                self.broken = line[1]
            else:
                self.broken = ""
            writer.write(json.dumps(list(self.seen)).encode() + b"\n")
            self.seen = {}
        writer.close()

    def started(self, code, _):
        _, inside, path = code.co_filename.rpartition("/addon/penumbra/")
        if not inside or "<" in code.co_qualname:
            return sys.monitoring.DISABLE
        name = f"{path}:{code.co_qualname}"
        self.seen[name] = None
        if name == self.broken:
            raise self.raised("a step that raises")
        return None


def shorten_pauses():
    for name, module in list(sys.modules.items()):
        if name.startswith("penumbra.flow.") and hasattr(module, "PAUSE"):
            module.PAUSE = PAUSE


def shared_store():
    return ctx.master.addons.get("penumbra").engines.current.engine.shared


class Inside:
    def __init__(self):
        plain, tls = os.environ["UPSTREAM_PORTS"].split(",")
        self.ports = {443: int(tls), 80: int(plain)}
        self.flows = []
        self.keeps = os.environ.get(FORGETFUL) is None
        self.watched = Steps()

    def server_connect(self, data):
        port = data.server.address[1]
        data.server.address = ("127.0.0.1", self.ports.get(port, port))

    def request(self, flow):
        if flow.request.path != COMMAND_PATH:
            if self.keeps:
                self.flows.append(flow)
            return
        try:
            result = ctx.master.commands.execute(flow.request.get_text())
        except (exceptions.CommandError, exceptions.MitmproxyException) as error:
            flow.response = http.Response.make(400, str(error))
            return
        flow.response = http.Response.make(200, json.dumps(result, default=str))

    @command.command("tests.flows")
    def seen(self) -> str:
        """Return path, comment, mark, metadata and response of the flows so far."""
        return json.dumps(
            [
                {
                    "path": f.request.path,
                    "comment": f.comment,
                    "marked": f.marked,
                    "metadata": dict(f.metadata),
                    "answer": (f.response.raw_content or b"").decode("latin-1") if f.response else "",
                }
                for f in self.flows
            ]
        )

    @command.command("tests.explained")
    def explained(self) -> str:
        """Return the flows so far as the view Penumbra shows them."""
        lines = ctx.master.commands.call("penumbra.explain", self.flows)
        return "\n".join(lines)

    @command.command("tests.steps")
    def steps(self) -> str:
        """Return the port for the name of the function that raises."""
        return str(self.watched.watch())

    @command.command("tests.forget")
    def forget(self) -> None:
        self.flows.clear()

    @command.command("tests.left")
    def left(self) -> str:
        """Return the numbers of requests on their way, threads and open files."""
        # Pools start their threads when they need them, so that any number of threads of one pool counts as
        # none.
        threads = [thread.name for thread in threading.enumerate()]
        pool = {name for name in threads if name.startswith(("asyncio_", "penumbra"))}
        state = sys.modules.get("penumbra.flow.state")
        states = state.all_states() if state else ()
        files = len(os.listdir("/proc/self/fd"))
        return json.dumps({"threads": len(threads) - len(pool), "files": files, "states": len(states)})

    @command.command("tests.in_memory")
    def in_memory(self) -> str:
        """Return the numbers of flows and of streams in memory."""
        self.flows.clear()
        gc.collect()
        from penumbra.flow.splice import SpliceStream

        kinds = collections.Counter(map(type, gc.get_objects()))
        return json.dumps({"flows": kinds[http.HTTPFlow], "streams": kinds[SpliceStream]})

    @command.command("tests.read")
    def known_requests(self) -> str:
        """Return the number of requests whose parts are in memory, where their flows keep them."""
        from penumbra.conversation.result_text import Carried

        gc.collect()
        return str(sum(type(each) is Carried for each in gc.get_objects()))

    @command.command("tests.caches")
    def caches(self) -> str:
        """Return the total size and the total limit of all caches that are limited in bytes or characters."""
        from penumbra.wire.prefix_memory import PrefixMemory

        # The start hides its objects from the collector.
        gc.unfreeze()
        filled = most = 0
        for each in gc.get_objects():
            if isinstance(each, Cache) and each.maxsize >= _LARGE:
                filled, most = filled + each.currsize, most + each.maxsize
            elif isinstance(each, PrefixMemory):
                filled, most = filled + each.bytes, most + each.most
        return json.dumps({"filled": filled, "most": most})

    @command.command("tests.asking")
    def round_trips(self) -> str:
        """Return the number of running and waiting round trips to a shared store."""
        return str(shared_store().asking)

    @command.command("tests.patience")
    def set_patience(self, seconds: str) -> None:
        """Set the seconds after which a shared store is slow."""
        shared_store().patience = float(seconds)

    def running(self):
        shorten_pauses()


addons = [Inside()]
