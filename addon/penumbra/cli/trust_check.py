"""Whether clients trust the CA: a handshake with each kind that is there, the way it makes one itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from penumbra.cli.ca_files import NAME
from penumbra.flow.certificate_names import CertificateNames

HOST = "api.anthropic.com"
_SECONDS = 20
_NODE = (
    "const t=require('tls').connect({host:'127.0.0.1',port:+process.argv[1],servername:process.argv[2]},"
    "()=>process.exit(0));t.on('error',e=>{console.error(e.code);process.exit(1)})"
)


def families(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each kind of client that is here, and why it does not trust the CA in a folder; empty if it does."""
    tries: dict[str, Callable[[int, Mapping[str, str]], str]] = {"Python": _python}
    tries |= {"Node": _node} if shutil.which("node", path=environment.get("PATH")) else {}
    tries |= {"curl": _curl} if shutil.which("curl", path=environment.get("PATH")) else {}
    with _server(folder) as port:
        for name, attempt in tries.items():
            yield name, attempt(port, environment)


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[int]:
    """A provider's host, as the proxy shows it, on a port of this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as there:
        context.load_cert_chain(_leaf(folder, Path(there)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, context), daemon=True).start()
        yield listener.getsockname()[1]


def _leaf(folder: Path, there: Path) -> Path:
    """A certificate as the proxy makes it, with its key."""
    from mitmproxy.certs import CertStore

    store = CertStore.from_store(folder, NAME, 2048)
    entry = CertificateNames.limited(store).get_cert(HOST, x509.GeneralNames([x509.DNSName(HOST)]))
    key = entry.privatekey.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = there / "leaf.pem"
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(key + entry.cert.to_pem())
    return path


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        client.settimeout(_SECONDS)
        with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True) as secured:
            secured.recv(4096)
            secured.sendall(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")


def _python(port: int, environment: Mapping[str, str]) -> str:
    bundle = environment.get("SSL_CERT_FILE") or None
    try:
        context = ssl.create_default_context(cafile=bundle)
        with (
            socket.create_connection(("127.0.0.1", port), _SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=HOST),
        ):
            return ""
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except OSError as error:
        return str(error.strerror or error)


def _node(port: int, environment: Mapping[str, str]) -> str:
    return _run(["node", "-e", _NODE, str(port), HOST], environment)


def _curl(port: int, environment: Mapping[str, str]) -> str:
    place = f"{HOST}:{port}"
    options = ["-sS", "-o", os.devnull, "--noproxy", "*", "--resolve", f"{place}:127.0.0.1"]
    return _run(["curl", *options, f"https://{place}/"], environment)


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    """The last line of what a failing program says."""
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    said = done.stderr.strip().split("\n")[0]
    return "" if done.returncode == 0 else said or f"exit code {done.returncode}"
