"""A receiver of spans over HTTP, like a collector."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.mitm import eventually


class Receiver:
    """A `Receiver` runs in a thread of its own."""

    def __init__(self) -> None:
        self._bodies = bodies = list[bytes]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def raw(self) -> bytes:
        return b"".join(self._bodies)

    def spans(self, count: int) -> list[Any]:
        """Return the first spans that arrived."""
        return list(eventually(lambda: (found := self._read()) and len(found) >= count and found))

    def _read(self) -> list[Any]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in list(self._bodies)]
        return [
            (values(resource.resource), span)
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def values(holder: Any) -> dict[str, Any]:
    """Return the attributes of a span or resource."""
    return {each.key: _plain(each.value) for each in holder.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_plain(each) for each in found.values] if kind == "array_value" else found
