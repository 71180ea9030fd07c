"""A certificate authority of one run, and a certificate for the providers' hosts."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = (
    "localhost", "api.anthropic.com", "api.openai.com", "chatgpt.com", "openrouter.ai", "api.cerebras.ai",
    "generativelanguage.googleapis.com", "ollama.com", "bedrock-runtime.us-east-1.amazonaws.com",
    "llm.example.org", "elsewhere.example.org",
)  # fmt: skip


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
    )


def make(directory: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a CA; return its certificate file (PEM) and a server context that offers HTTP/2 and HTTP/1.1."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    ca = (
        _builder("test provider CA", "test provider CA", ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(ca_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in HOSTS]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_id)
    leaf = (
        _builder("test provider", "test provider CA", key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    ca_file, chain_file = directory / "upstream-ca.pem", directory / "upstream.pem"
    ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    chain_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + leaf.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain_file)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return ca_file, context
