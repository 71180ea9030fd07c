"""A server of any protocol that keeps all received bytes and answers requests."""

from __future__ import annotations

import contextlib
import re
import socket
import threading

_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Sink:
    """A `Sink` is a context manager. At its end, all sent bytes have arrived."""

    def __init__(self, greeting: bytes = b"") -> None:
        """`greeting` is what the server sends first on each connection."""
        self.got = b""
        self._greeting = greeting
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """Wait for the ends of all connections."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(20)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, target: object, *given: object) -> None:
        self._threads.append(threading.Thread(target=target, args=given, daemon=True))  # type: ignore[arg-type]
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._start(self._serve, self._listening.accept()[0])

    def _serve(self, stream: socket.socket) -> None:
        with stream, contextlib.suppress(OSError):
            stream.sendall(self._greeting)
            said = b""
            while data := stream.recv(65_536):
                said += data
                self.got += data
                head, end, body = said.partition(b"\r\n\r\n")
                length = _LENGTH.search(head)
                if end and len(body) >= int(length[1] if length else 0):
                    stream.sendall(_ANSWER)
                    said = b""
