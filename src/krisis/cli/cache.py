"""`krisis cache`: show or clear the cache of paid replies."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.execution.cache import ReplyCache, default_cache_path
from krisis.pages.numbers import megabytes

app = new_app("Show or clear the cache of paid replies.")
_PATH = typer.Option(None, "--cache-path")


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


@command(app, "krisis cache clear")
def clear(cache_path: Path | None = _PATH) -> None:
    """Remove every reply; runs and their rows are not touched."""
    cache = ReplyCache(cache_path or default_cache_path())
    n_replies = cache.clear()
    cache.close()
    typer.echo(f"removed {n_replies} replies")


def _day(seconds: float | None) -> str:
    return datetime.fromtimestamp(seconds or 0, UTC).date().isoformat()
