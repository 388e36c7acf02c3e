"""One HTTP policy for every SDK: no redirects, no retries, bounded bodies, faults by their name.

Every SDK is given the client made here and none opens a connection of its own, so what is true of
one provider is true of all: a call is one request to one address, and whatever goes wrong on the
way comes out as an error that says what it was. Time-outs are the caller's: there is one clock.
"""

from __future__ import annotations

import ssl
import urllib.request
import zlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from krisis.errors import BackendError, ProviderUnavailable, RequestRefused, TlsRefused, Unreachable

if TYPE_CHECKING:
    import aiohttp
    import httpx2

# Far more than the longest reply with its log-probabilities, and little enough to hold in memory
# for a hundred calls; it bounds what comes over the wire and what that unpacks to.
MAX_BODY_BYTES = 32 * 2**20
_CHUNK_BYTES = 2**16
# Bodies are unpacked here, within bounds, and handed on as they are.
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})


def http_client(max_body_bytes: int = MAX_BODY_BYTES) -> Any:
    """Return an HTTP client that keeps to the policy; every SDK takes this kind."""
    import httpx2

    transport: Any = Transport(max_body_bytes)
    client = httpx2.AsyncClient(transport=transport, follow_redirects=False)
    client.headers["accept-encoding"] = "gzip, deflate"
    return client


class Transport:
    """Sends a request of httpx2 over aiohttp, which needs half the CPU of its own transport."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[tuple[str, str], str | None] = {}

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request and read its response whole."""
        import httpx2

        url, content = str(request.url), await request.aread()
        host = request.url.scheme, request.url.host
        if host not in self._proxies:
            self._proxies[host] = _proxy(*host)
        try:
            async with self._opened().request(
                request.method,
                url,
                headers=request.headers,
                data=content or None,
                allow_redirects=False,
                proxy=self._proxies[host],
            ) as response:
                _refuse_redirect(response)
                body = await _body(response, self._max_body_bytes)
        except BackendError:
            raise
        except Exception as error:
            raise _named(error, _origin(request.url)) from error
        headers = [
            (name, value)
            for name, value in response.raw_headers
            if name.decode("latin-1").lower() not in _OF_THE_WIRE
        ]
        return httpx2.Response(response.status, headers=headers, content=body, request=request)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                # How many calls are open at a time is the engine's to say.
                connector=aiohttp.TCPConnector(limit=0, ssl=_ssl_context()),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return the certificates that are trusted, read once: that takes longer than a call."""
    import httpx2

    return httpx2.create_ssl_context()


def _origin(url: Any) -> str:
    """Return scheme, host and port alone: paths and queries of an address can hold secrets."""
    port = "" if url.port is None else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}"


def _proxy(scheme: str, host: str) -> str | None:
    # aiohttp would read the logins of ~/.netrc along with the proxies and send them in place of
    # the key, so the environment is asked here.
    proxies = urllib.request.getproxies()
    if not proxies or urllib.request.proxy_bypass(host):
        return None
    return proxies.get(scheme) or proxies.get("all")


def _refuse_redirect(response: aiohttp.ClientResponse) -> None:
    """Raise on a redirect: following one would show prompt and key to whoever it points to."""
    if not (300 <= response.status < 400):
        return
    from yarl import URL

    try:
        target = _origin(response.url.join(URL(response.headers.get("Location", ""))))
    except ValueError:
        target = "an address that cannot be read"
    raise RequestRefused(
        f"{_origin(response.url)} redirects to {target} (status {response.status}), and no "
        "redirect is followed, since it would take the key and the prompt along; if you trust "
        "that address, give it as base_url",
        status=response.status,
    )


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body, unpacked; raise as soon as either form is too large."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ProviderUnavailable(
            f"{_origin(response.url)} sent a body packed as {encoding[:20]!r}, which was not asked "
            "for and is not read"
        )
    unpack = _Unpacker(encoding) if encoding not in ("identity", "") else None
    body = bytearray()
    n_received = 0
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        n_received += len(chunk)
        body += chunk if unpack is None else unpack(chunk, most + 1 - len(body))
        if max(n_received, len(body)) > most:
            raise ProviderUnavailable(
                f"{_origin(response.url)} sent more than {most // 2**20} MB in one "
                "response; the rest was not read"
            )
    if unpack is not None and not unpack.is_complete:
        raise ProviderUnavailable(f"the packed body from {_origin(response.url)} breaks off")
    return bytes(body)


class _Unpacker:
    """Unpacks gzip and deflate, never further than asked: a bomb stays packed."""

    def __init__(self, encoding: str) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | (0 if encoding == "deflate" else 16))

    def __call__(self, chunk: bytes, n_most: int) -> bytes:
        """Return at most so many bytes of what a chunk unpacks to."""
        return self._zlib.decompress(chunk, max(n_most, 1))

    @property
    def is_complete(self) -> bool:
        """Whether the end of the packed data was seen."""
        return self._zlib.eof


def _named(error: Exception, origin: str) -> BackendError:
    """Return what happened on the way to a server, by its own name and without its bytes."""
    cause = getattr(error, "os_error", None) or error
    # Only of the handshake: the same error later on may follow a request that was billed.
    if (
        isinstance(cause, ssl.SSLError)
        and cause is not error
        and (sentence := _tls_refusal(cause, origin))
    ):
        return TlsRefused(sentence)
    reason = getattr(cause, "strerror", None) or type(cause).__name__
    for kinds, kind, sentence in (*_faults_of_connecting(), *_faults_of_answering()):
        if isinstance(error, kinds) or isinstance(cause, kinds):
            return kind(sentence.format(origin=origin, reason=reason))
    return BackendError(f"the call to {origin} failed in its transport: {type(error).__name__}")


# By OpenSSL's number of what is wrong with a certificate; any other means that nobody vouches for
# it whom this machine trusts.
_EXPIRED = (
    "the TLS certificate of {origin} is not valid today; have it renewed, or check the clock of "
    "this machine"
)
_OTHER_NAME = (
    "the TLS certificate of {origin} is for another host; give as base_url the name that the "
    "certificate has"
)
_OF_CERTIFICATES = {9: _EXPIRED, 10: _EXPIRED, 62: _OTHER_NAME, 64: _OTHER_NAME}
_UNTRUSTED = (
    "the TLS certificate of {origin} is not trusted ({reason}); if the server is yours, name the "
    "file of its certificate authority in SSL_CERT_FILE"
)
# What a server that answers in plain HTTP looks like to whoever expects TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "RECORD_LAYER_FAILURE")


def _tls_refusal(error: ssl.SSLError, origin: str) -> str:
    """Return the sentence for a TLS fault that no retry mends; nothing for any other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = getattr(error, "verify_message", "") or "no issuer is known"
        sentence = _OF_CERTIFICATES.get(getattr(error, "verify_code", 0), _UNTRUSTED)
        return sentence.format(origin=origin, reason=reason)
    if getattr(error, "reason", "") in _NO_TLS:
        return (
            f"the server at {origin} does not speak TLS; if it is on this machine, write http:// "
            "in base_url, else check the port"
        )
    return ""


# What aiohttp raises, what that is to krisis, and the sentence; the first that fits is meant.
_Faults = Sequence[tuple[tuple[type[Exception], ...], type[BackendError], str]]


@cache
def _faults_of_connecting() -> _Faults:
    """Return what keeps a request from being sent."""
    import aiohttp as http

    return (
        (
            (http.ClientProxyConnectionError, http.ClientHttpProxyError),
            Unreachable,
            "the proxy on the way to {origin} gives no connection ({reason}); check HTTPS_PROXY",
        ),
        (
            (http.ClientSSLError,),
            Unreachable,
            "no TLS connection to {origin} can be made ({reason}); check base_url and any proxy",
        ),
        (
            (ConnectionRefusedError,),
            Unreachable,
            "nothing listens at {origin} (connection refused); start it or check base_url",
        ),
        (
            (http.ClientConnectorDNSError,),
            Unreachable,
            "the host name of {origin} cannot be resolved; check base_url and the network",
        ),
        (
            (http.ClientConnectorError,),
            Unreachable,
            "no connection to {origin} can be made ({reason}); check the network",
        ),
        ((http.InvalidURL,), RequestRefused, "{origin} cannot be called; check base_url"),
    )


@cache
def _faults_of_answering() -> _Faults:
    """Return what keeps a response from being read."""
    import aiohttp as http

    return (
        (
            (http.ServerDisconnectedError,),
            ProviderUnavailable,
            "{origin} closed the connection before it answered",
        ),
        (
            (ConnectionResetError,),
            ProviderUnavailable,
            "the connection to {origin} was reset before the response was complete",
        ),
        ((OSError,), ProviderUnavailable, "the connection to {origin} was lost ({reason})"),
        ((http.ClientPayloadError,), ProviderUnavailable, "the response of {origin} breaks off"),
        # What aiohttp says of these quotes the bytes, and has a status 400 that nobody sent.
        (
            (http.ClientError, zlib.error),
            ProviderUnavailable,
            "{origin} sent what is not a valid HTTP response",
        ),
    )
