"""`penumbra replay` shows what Penumbra would have saved in requests that were recorded without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from mitmproxy import exceptions, flow, http
from mitmproxy.io import FlowReader

from penumbra.apis import recognise
from penumbra.apis.recognise import Api
from penumbra.cli.command import WRONG, Failure
from penumbra.cli.command import settings as read_settings
from penumbra.cli.projection_run import Progress, parser, projector, show, worked_out, writable
from penumbra.conversation.incoming import Incoming
from penumbra.errors import counted, one_line
from penumbra.projection.figures import Figures
from penumbra.projection.projector import RequestProjection
from penumbra.wire import content_encoding

USAGE = """\
usage: penumbra replay [--json] [--html FILE] FILE …

Reads recorded requests, mitmproxy's flows (`mitmdump -w FILE`) or HAR, and works out what Penumbra would have
saved in those that are calls of LLMs. Nothing is changed, and nothing is sent. Requests that went through
Penumbra already are left out.

  --json         print the figures for programs
  --html FILE    also write a page, without secrets, but with the beginning of the largest results

Settings and rules count as in the proxy. Exit code 0, or 1 if no file has a call of an LLM.
"""


class _Counts:
    """A `_Counts` has the numbers of files and requests that were read or left out."""

    def __init__(self) -> None:
        self.read = dict.fromkeys(("files", "requests", "others", "already", "unreadable", "cut"), 0)
        self.foreign: list[Path] = []


def main(arguments: Sequence[str]) -> int:
    """Print the figures and return the exit code, which is 1 if no LLM call was found. Raises Failure."""
    arguments_of = parser("replay")
    arguments_of.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = arguments_of.read(arguments)
    page = writable("replay", options.html)
    files = [path.expanduser() for path in options.files]
    for path in files:
        if not path.is_file():
            raise Failure(f"replay: {path} is no file", code=WRONG)
    counts, figures = _Counts(), Figures()
    progress = Progress(sum(path.stat().st_size for path in files))
    with closing(projector("replay", adopts=True)) as engine:
        is_whole = worked_out(_project(RequestProjection(engine, figures), files, counts, progress), progress)
    if counts.foreign == files:
        raise Failure(f"replay: {_foreign(files)}", code=WRONG)
    lines = _summary(counts, is_whole)
    show(figures, lines, counts.read, page, as_json=options.json)
    return 0 if figures.requests.count else 1


async def _project(
    projection: RequestProjection, files: Sequence[Path], counts: _Counts, progress: Progress
) -> None:
    settings = read_settings()
    for number, path in enumerate(files, 1):
        for each in _flows(path, counts):
            progress.show(f"file {number:,} of {len(files):,}, {counted(counts.read['requests'], 'request')}")
            for incoming in _calls(each, settings.hosts, settings.max_body_bytes, counts.read):
                counts.read["requests"] += 1
                await projection.add(incoming, path.name)
        counts.read["files"] += path not in counts.foreign
        progress.advance(path.stat().st_size)


def _flows(path: Path, counts: _Counts) -> Iterator[http.HTTPFlow]:
    """Yield the HTTP flows of a file that precede the first broken flow."""
    is_ours = False
    try:
        with path.open("rb") as file:
            each: flow.Flow
            for each in FlowReader(file).stream():
                is_ours = True
                if isinstance(each, http.HTTPFlow):
                    yield each
    except (exceptions.FlowReadException, OSError, ValueError, KeyError, TypeError):
        if is_ours:
            counts.read["cut"] += 1
        else:
            counts.foreign.append(path)


def _foreign(paths: Sequence[Path]) -> str:
    """Return a line about the files without a readable request."""
    names = ", ".join(one_line(path.name) for path in paths)
    return f"{names}: neither flows of mitmproxy (`mitmdump -w FILE`) nor HAR that can be read"


def _calls(
    each: http.HTTPFlow, hosts: tuple[str, ...], most: int, counts: dict[str, int]
) -> Iterator[Incoming]:
    """Yield the LLM calls in a flow. A WebSocket may have a call in each frame."""
    request = each.request
    headers = {name.lower(): value for name, value in request.headers.items()}
    is_ours = recognise.is_llm_host(request.pretty_host, hosts)
    api = recognise.by_request_line(request.method, request.path) if is_ours else None
    socket = recognise.asks_for(request.method, request.path, headers) if is_ours else None
    if "penumbra" in each.metadata:
        counts["already"] += 1
    elif socket is not None and each.websocket is not None:
        for message in each.websocket.messages:
            if message.from_client and message.is_text:
                yield _incoming(request, socket, message.content, headers, is_frame=True)
    elif api is None:
        counts["others"] += 1
    elif (body := _body(request, most)) is None:
        counts["unreadable"] += 1
    else:
        yield _incoming(request, api, body, headers)


def _body(request: http.Request, most: int) -> bytes | None:
    content = request.raw_content
    if content is None:
        return None
    if content[:1] == b"{":
        # HAR files contain decoded texts, even if the headers name a content-encoding.
        return content
    try:
        return content_encoding.decode(content, request.headers.get("content-encoding", ""), most)
    except content_encoding.NotDecodable:
        return None


def _incoming(
    request: http.Request, api: Api, body: bytes, headers: dict[str, str], *, is_frame: bool = False
) -> Incoming:
    return Incoming(
        api=api,
        body=body,
        headers=headers,
        query=dict(request.query.items()),
        peer="127.0.0.1",
        host=f"{request.pretty_host}:{request.port}",
        path=request.path,
        socket=is_frame,
    )


def _summary(read: _Counts, is_whole: bool) -> list[str]:
    counts = read.read
    lines = [
        f"files      {counted(counts['files'], 'file')} read, {counted(counts['requests'], 'call')} of LLMs"
    ]
    left_out = [
        f"{counts[name]:,} {words}"
        for name, words in (
            ("others", "of other requests"),
            ("already", "that went through Penumbra"),
            ("unreadable", "without a body that can be read"),
        )
        if counts[name]
    ]
    if left_out:
        lines.append(f"left out   {', '.join(left_out)}")
    if counts["cut"]:
        lines.append(f"not read   the rest of {counted(counts['cut'], 'file')}, which is broken there")
    if read.foreign:
        lines.append(f"not read   {_foreign(read.foreign)}")
    if not is_whole:
        lines.append("stopped    later requests are left out")
    return lines
