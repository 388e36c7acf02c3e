"""What is wrong with TLS is said in one sentence and not asked again, with every SDK."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientConnectorSSLError
from tests.backends.conftest import staging_task
from tests.backends.test_transport import KEY, http

from krisis.backends import transport
from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.gemini import GeminiBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.provider import ProviderBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite
from krisis.errors import ProviderUnavailable, RequestRefused, TlsRefused, Unreachable

x509 = pytest.importorskip("cryptography.x509", reason="makes certificates")


def certificate(folder: Path, *, host: str = "127.0.0.1", first_day: int = -1) -> Path:
    """Write a certificate that vouches for itself, with its key; it is valid for ten days."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "krisis tests")])
    try:
        known = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        known = x509.DNSName(host)
    start = datetime.now(UTC) + timedelta(days=first_day)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=10))
        .add_extension(x509.SubjectAlternativeName([known]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


class TlsServer:
    """Counts connections, and refuses every request that comes through."""

    def __init__(self, pem: Path | None) -> None:
        self.n_connections = 0
        self._context: ssl.SSLContext | None = None
        if pem is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(pem)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listening.accept()
                self.n_connections += 1
                with suppress(OSError), connection:
                    if self._context is not None:
                        connection = self._context.wrap_socket(connection, server_side=True)
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(http(b"{}", status="400 Bad Request"))

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Path | None], TlsServer]]:
    servers: list[TlsServer] = []

    def start(pem: Path | None) -> TlsServer:
        servers.append(TlsServer(pem))
        return servers[-1]

    transport._ssl_context.cache_clear()
    yield start
    transport._ssl_context.cache_clear()
    for server in servers:
        server.close()


def run(kind: type[ProviderBackend], server: TlsServer, host: str = "127.0.0.1") -> None:
    backend = kind(
        "some-model",
        base_url=f"https://{host}:{server.port}/v1",
        api_key=KEY,
        retry_base_seconds=0.001,
        max_retries=3,
    )
    records = [PatientRecord({"sc": 1 + i / 10, "htn": 1, "hemo": 9}, 3) for i in range(6)]
    suite = RecordListSuite(records, staging_task())
    Benchmark(suite, backend, max_concurrency=1, batch_size=1).run()


# What is wrong → days until the certificate is valid, its host, whether we trust it, the sentence.
FAULTS = {
    "untrusted": (-1, "127.0.0.1", False, r"not trusted \(self.signed certificate\); .* SSL_CERT"),
    "expired": (-20, "127.0.0.1", True, "is not valid today; have it renewed, or check the clock"),
    "not yet valid": (5, "127.0.0.1", True, "is not valid today"),
    "another address": (-1, "10.1.2.3", True, "is for another host; give as base_url the name"),
    "another name": (-1, "other.example", True, "is for another host"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [OpenAIBackend, AnthropicBackend, GeminiBackend])
def test_a_certificate_that_is_not_accepted_is_named_and_not_asked_for_again(
    kind: type[ProviderBackend],
    fault: str,
    tmp_path: Path,
    serve: Callable[[Path | None], TlsServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first_day, host, is_trusted, sentence = FAULTS[fault]
    pem = certificate(tmp_path, host=host, first_day=first_day)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    server = serve(pem)
    asked_as = "localhost" if fault == "another name" else "127.0.0.1"
    with pytest.raises(TlsRefused, match=sentence) as caught:
        run(kind, server, asked_as)
    assert f"TLS certificate of https://{asked_as}:{server.port} " in str(caught.value)
    assert server.n_connections == 1


@pytest.mark.parametrize("kind", [OpenAIBackend, AnthropicBackend, GeminiBackend])
def test_a_server_without_tls_is_named_and_not_asked_again(
    kind: type[ProviderBackend], serve: Callable[[Path | None], TlsServer]
) -> None:
    server = serve(None)
    with pytest.raises(TlsRefused, match=r"does not speak TLS; if it is on this machine, write "):
        run(kind, server)
    assert server.n_connections == 1


def test_the_advice_helps(
    tmp_path: Path,
    serve: Callable[[Path | None], TlsServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pem = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with pytest.raises(RequestRefused, match="answered 400"):
        run(OpenAIBackend, serve(pem))


def test_another_fault_of_the_handshake_is_tried_again() -> None:
    fault = ssl.SSLEOFError(8, "EOF in violation of protocol")
    key: Any = SimpleNamespace(host="h", port=443, ssl=True, is_ssl=True)
    cut = transport._named(ClientConnectorSSLError(key, fault), "https://h")
    assert type(cut) is Unreachable
    assert str(cut).startswith("no TLS connection to https://h can be made (EOF in violation")
    assert cut.retryable


def test_a_tls_fault_after_the_request_was_sent_may_have_been_billed() -> None:
    fault = ssl.SSLError(1, "wrong version number")
    fault.reason = "WRONG_VERSION_NUMBER"
    lost = transport._named(fault, "https://h")
    assert type(lost) is ProviderUnavailable
    assert lost.may_be_billed
