"""The interviews under `krisis data`: write the embedded ones, check one's own."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from krisis.data.phq8.export import summary, synthetic_interviews, write_directory
from krisis.data.phq8.readers import read_interviews
from krisis.errors import InvalidValue


def write_phq8(
    out: Path = typer.Option(..., "--out", help="the new folder to write"),
    n_participants: int = typer.Option(200, "--n-participants", help="how many participants"),
    seed: int = typer.Option(42, "--seed", help="the same seed gives the same bytes"),
    withheld_rate: float = typer.Option(
        0.3, "--withheld-rate", help="share of the items without evidence"
    ),
) -> None:
    """Write interviews of the embedded cohort in the layout of DAIC-WOZ."""
    if n_participants < 1 or seed < 0 or not 0 <= withheld_rate <= 1:
        raise InvalidValue(
            "--n-participants must be 1 or more, --seed 0 or more and --withheld-rate between 0 "
            f"and 1, not {n_participants}, {seed} and {withheld_rate:g}"
        )
    interviews = synthetic_interviews(n_participants, seed=seed, withheld_rate=withheld_rate)
    write_directory(out, interviews)
    typer.echo(f"Wrote {n_participants} synthetic interviews to {out}")


def check_interviews(
    path: Path = typer.Argument(..., help="a directory of transcripts or a .jsonl file"),
    labels: Path | None = typer.Option(None, "--labels", help="the labels file of a directory"),
    as_json: bool = typer.Option(False, "--json", help="print JSON instead of text"),
) -> None:
    """Read interviews as the phq8 suite would and count what they hold; no text is printed."""
    found = summary(read_interviews(path, labels))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    turns, splits = found["n_turns"], found["splits"]
    typer.echo(f"{path}: readable")
    typer.echo(f"  participants  {found['n_participants']}; {_counts(splits)}")
    typer.echo(f"  turns         {turns['least']} to {turns['most']}, median {turns['median']:g}")
    typer.echo(f"  total ≥ 10    {found['n_total_10_or_more']}")
    for key, counts in found["scores"].items():
        typer.echo(f"  {key:<13} {' / '.join(map(str, counts))} with score 0 / 1 / 2 / 3")


def _counts(splits: dict[str, int]) -> str:
    return ", ".join(f"split {name}: {count}" for name, count in sorted(splits.items()))
