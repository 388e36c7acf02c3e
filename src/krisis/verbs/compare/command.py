"""`krisis compare`: paired differences between runs on the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.formats import Format, Output, Verbose, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue
from krisis.json_values import write_text
from krisis.pages.shell import page
from krisis.terminal_edge import live_console
from krisis.verbs import compare as verbs
from krisis.verbs.compare.page import comparison_document

app = new_app()


@command(
    app,
    "krisis compare runs/A runs/B",
    "krisis compare a.json b.json c.json --html comparison.html",
    "krisis compare runs/A runs/B --primary accuracy --margin accuracy=0.05",
)
def compare(
    runs: list[Path] = typer.Argument(..., help="Two or more runs or saved results."),
    metric: list[str] = typer.Option([], "--metric", "-m"),
    primary: str | None = typer.Option(None, "--primary"),
    margin: list[str] = typer.Option(
        [],
        "--margin",
        metavar="METRIC=NUMBER",
    ),
    permutations: int = typer.Option(1999, "--permutations", min=99),
    seed: int = typer.Option(42, "--seed"),
    output_format: Format = "",
    output: Output = None,
    verbose: Verbose = False,
    html: Path | None = typer.Option(None, "--html"),
    with_ids: bool = typer.Option(False, "--with-ids"),
    costs: Path | None = typer.Option(None, "--costs"),
    price: float | None = typer.Option(None, "--price"),
) -> None:
    """Compare runs on the same cases, pair by pair, with one set of permutations for everything."""
    chosen = chosen_format(output_format, output)
    with live_console().status("permuting patients …"):
        comparison = verbs.compare(
            *runs,
            metrics=metric,
            primary=primary,
            margin=margins_of(margin),
            permutations=permutations,
            seed=seed,
            costs=costs,
            price=price,
        )
    warn_of_damage(comparison.runs.values())
    give(comparison, comparison.to_dict, chosen, output=output, verbose=verbose)
    if html is not None:
        write_text(html, page(comparison_document(comparison, with_ids=with_ids)))
        typer.echo(f"wrote {html}", err=True)


def margins_of(texts: Sequence[str]) -> float | dict[str, float] | None:
    """Read margins: one number for all metrics, or one per metric."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return _number(texts[0])
    pairs = [text.partition("=") for text in texts]
    if any(not equals or not name for name, equals, _ in pairs):
        raise InvalidValue(
            f"--margin takes one number, or METRIC=NUMBER for each metric, not {list(texts)}"
        )
    return {name.strip(): _number(value) for name, _, value in pairs}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(f"--margin takes a number such as 0.05, not {text!r}") from None
