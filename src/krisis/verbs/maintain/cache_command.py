"""`krisis cache`: show or clear the cache of paid replies."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue
from krisis.execution.cache import ReplyCache, default_cache_path
from krisis.pages.numbers import megabytes

app = new_app("Show or clear the cache of paid replies.")
_PATH = typer.Option(None, "--cache-path")
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0}


@command(app, "krisis cache info")
def info(cache_path: Path | None = _PATH) -> None:
    """Show where the cache is, how large it is and which models it knows."""
    cache = ReplyCache(cache_path or default_cache_path())
    about = cache.info()
    cache.close()
    typer.echo(f"path     {about.path}")
    typer.echo(f"replies  {about.n_replies}")
    typer.echo(f"size     {megabytes(about.size_bytes)}")
    if about.n_replies:
        typer.echo(f"saved    {_day(about.oldest)} to {_day(about.newest)}")
    for model, n_replies in about.models.items():
        typer.echo(f"  {model}: {n_replies}")


@command(app, "krisis cache clear", "krisis cache clear --older-than 30d")
def clear(
    cache_path: Path | None = _PATH, older_than: str = typer.Option("", "--older-than")
) -> None:
    """Remove every reply, or those of some age; runs and their rows are not touched."""
    seconds = _seconds(older_than) if older_than else 0.0
    cache = ReplyCache(cache_path or default_cache_path())
    n_replies = cache.clear(older_than_seconds=seconds)
    cache.close()
    typer.echo(f"removed {n_replies} replies")


def _seconds(age: str) -> float:
    """Return an age such as 30d, 12h or 90m in seconds.

    >>> _seconds("30d"), _seconds("90m")
    (2592000.0, 5400.0)
    """
    found = re.fullmatch(r"([0-9]{1,6})([dhm])", age)
    if found is None or not int(found[1]):
        raise InvalidValue(f"--older-than takes days, hours or minutes such as 30d, not {age!r}")
    return int(found[1]) * _UNITS[found[2]]


def _day(seconds: float | None) -> str:
    return datetime.fromtimestamp(seconds or 0, UTC).date().isoformat()
