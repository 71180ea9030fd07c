"""Loaded into mitmdump by the tests, beside the addon or alone.

It leads every connection to the stand-in, whatever host the client asked for, and lets a test run a
mitmproxy command: `POST /.command` with the command as body, to any host.
"""

import asyncio
import json
import os
import sys

from mitmproxy import command, ctx, exceptions, http

COMMAND_PATH = "/.command"
PAUSE = 0.02
"""Seconds between two tries of a hidden call that failed; a user's proxy takes longer."""


def shorten_pauses():
    for name, module in list(sys.modules.items()):
        if name.startswith("penumbra.flow.") and hasattr(module, "_PAUSE"):
            module._PAUSE = PAUSE


class Inside:
    def __init__(self):
        plain, tls = os.environ["UPSTREAM_PORTS"].split(",")
        self.ports = {443: int(tls), 80: int(plain)}
        self.flows = []
        self.lag = 0.0

    def server_connect(self, data):
        port = data.server.address[1]
        data.server.address = ("127.0.0.1", self.ports.get(port, port))

    def request(self, flow):
        if flow.request.path != COMMAND_PATH:
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
        """What the flows so far say of themselves."""
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
        """What the view Penumbra shows of the flows so far."""
        lines = ctx.master.commands.call("penumbra.explain", self.flows)
        return "\n".join(lines)

    @command.command("tests.forget")
    def forget(self) -> None:
        """Forget the flows, and the lag."""
        self.flows.clear()
        self.lag = 0.0

    @command.command("tests.lag")
    def longest_lag(self) -> str:
        """The longest time in milliseconds that the event loop was busy without a break."""
        return str(self.lag * 1000)

    def running(self):
        shorten_pauses()
        self.watch = asyncio.create_task(self.measure())

    async def measure(self):
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            self.lag = max(self.lag, loop.time() - before - 0.01)

    def done(self):
        self.watch.cancel()


addons = [Inside()]
