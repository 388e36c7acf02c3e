"""What every test shares: no network but loopback, and the shared material where it exists."""

from __future__ import annotations

import hashlib
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.data.support2.made_up import file_of, made_up_rows

from krisis.confidence import patient_keys
from krisis.data.support2.file import SUPPORT2
from krisis.errors import RunFailed
from krisis.pulling import pull

# The clock of a busy machine says nothing about the code, so no example has a deadline.
settings.register_profile(
    "normal", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("normal")

_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")
# Where the developer keeps the file, before the tests get a cache of their own.
_USER_SUPPORT2 = SUPPORT2.path
_SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what krisis caches and notes out of the developer's own folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _cheap_patient_keys() -> Iterator[None]:
    """Recognise patients by hashes that cost next to nothing; test_patient_keys has the real."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patient_keys, "_COST", 2)
        yield


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that would leave this machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def check(sock: socket.socket, address: object) -> None:
        if sock.family == socket.AF_UNIX:
            return
        host = str(address[0]) if isinstance(address, tuple) else str(address)
        if not host.startswith(_LOOPBACK):
            raise AssertionError(f"a test tried to reach {host}; tests stay on loopback")

    def guarded(sock: socket.socket, address: object) -> None:
        check(sock, address)
        return connect(sock, address)

    def guarded_ex(sock: socket.socket, address: object) -> int:
        check(sock, address)
        return connect_ex(sock, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_ex)


@pytest.fixture
def real_ckd_file() -> Path:
    """Return the UCI file that lies beside a developer's checkout; users do not have it."""
    path = _SHARED / "data" / "ckd_full.csv"
    if not path.exists():
        pytest.skip("the UCI CKD file is not beside this checkout")
    return path


def keep_support2(patch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let a made-up file pass for SUPPORT2, with the hash that it has."""
    file = replace(
        SUPPORT2, sha256=hashlib.sha256(content).hexdigest(), n_bytes=len(content), folder="made-up"
    )
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(content)
    for module in ("file", "suite"):
        patch.setattr(f"krisis.data.support2.{module}.SUPPORT2", file)


@pytest.fixture
def made_up_support2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve invented patients in place of those of SUPPORT2."""
    keep_support2(monkeypatch, _made_up_support2_file())


@cache
def _made_up_support2_file() -> bytes:
    return file_of(made_up_rows())


@pytest.fixture(scope="session")
def real_support2() -> Path:
    """Return the real file from the developer's own cache, or pull it; skip where it cannot be."""
    if not SUPPORT2.is_intact() and SUPPORT2.is_intact(_USER_SUPPORT2):
        SUPPORT2.path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_USER_SUPPORT2, SUPPORT2.path)
    try:
        return pull(SUPPORT2)
    except RunFailed as error:
        pytest.skip(f"SUPPORT2 is neither in the cache nor on the package index: {error}")
