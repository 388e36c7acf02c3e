"""`krisis compare`: paired differences between runs on the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from krisis.cli.console import drawn, warn_of_damage, wide_console
from krisis.cli.formats import Answer, AsJson, Format, Output, chosen_format
from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue
from krisis.json_values import dumps, write_text
from krisis.pages.compare import cases_document
from krisis.pages.terminal import terminal_text
from krisis.reporting.comparison import comparison_html
from krisis.reporting.run_tables import comparison_tables
from krisis.results.comparison.compare import Comparison
from krisis.results.comparison.text import comparison_parts
from krisis.verbs import scoring as verbs

app = new_app()
MOST_PAIRS = 3  # of which the cases are compared one by one


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
    as_json: AsJson = False,
    output: Output = None,
    html: Path | None = typer.Option(None, "--html"),
    with_ids: bool = typer.Option(False, "--with-ids"),
) -> None:
    """Compare runs on the same cases, pair by pair, with one set of permutations for everything."""
    chosen, to_file = chosen_format(output_format, as_json, output), output is not None
    with Console(stderr=True).status("permuting patients …"):
        comparison = verbs.compare(
            *runs,
            metrics=metric,
            primary=primary,
            margin=margins_of(margin),
            permutations=permutations,
            seed=seed,
        )
    warn_of_damage(comparison.runs.values())
    Answer(
        text=lambda: drawn(lambda shown: draw_comparison(comparison, shown), to_file=to_file),
        tables=lambda: comparison_tables(comparison),
        json=lambda: dumps(comparison.to_dict()),
    ).give(chosen, output)
    if html is not None:
        write_text(html, comparison_html(comparison, with_ids=with_ids))
        typer.echo(f"wrote {html}", err=True)


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison, pair by pair."""
    draw_comparison(comparison, wide_console())


def draw_comparison(comparison: Comparison, console: Console) -> None:
    """Draw a comparison on a console, pair by pair."""
    if len(comparison.pairs) <= MOST_PAIRS:  # of many runs, the table of all comes first
        for line in terminal_text(cases_document(comparison)).splitlines()[1:]:
            console.print(Text(line))
    for part in comparison_parts(comparison, width=console.width):
        console.print(part)


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
