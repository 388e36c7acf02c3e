"""The interviews under `krisis data`: write the embedded ones, check one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import typer

from krisis.data.base import SuiteConfig
from krisis.data.phq8.corpus import LabelledInterview, read_interviews, write_directory
from krisis.data.phq8.interviews import draw_cohort, draw_splits, write_interview
from krisis.data.phq8.items import ITEM_KEYS, N_SCORES
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject


def write(
    out: Path = typer.Option(..., "--out", help="the new folder to write"),
    n_participants: int = typer.Option(200, "--n-participants", help="how many participants"),
    seed: int = typer.Option(42, "--seed", help="the same seed gives the same bytes"),
    withheld_rate: float = typer.Option(
        0.3, "--withheld-rate", help="share of the items without evidence"
    ),
) -> None:
    """Write interviews of the embedded cohort in the layout of DAIC-WOZ.

    Example:  krisis data phq8 --out interviews --n-participants 40
    """
    if n_participants < 1 or seed < 0 or not 0 <= withheld_rate <= 1:
        raise InvalidValue(
            "--n-participants must be 1 or more, --seed 0 or more and --withheld-rate between 0 "
            f"and 1, not {n_participants}, {seed} and {withheld_rate:g}"
        )
    interviews = synthetic_interviews(n_participants, seed=seed, withheld_rate=withheld_rate)
    write_directory(out, interviews)
    typer.echo(f"Wrote {n_participants} synthetic interviews to {out}")


def check(
    path: Path = typer.Argument(..., help="a directory of transcripts or a .jsonl file"),
    labels: Path | None = typer.Option(None, "--labels", help="the labels file of a directory"),
    as_json: bool = typer.Option(False, "--json", help="print JSON instead of text"),
) -> None:
    """Read interviews as the phq8 suite would and count what they hold; no text is printed.

    Example:  krisis data check-interviews interviews
    """
    found = summary(read_interviews(path, labels))
    typer.echo(json.dumps(found, indent=2) if as_json else _text(path, found))


def _text(path: Path, found: JsonObject) -> str:
    turns = found["n_turns"]
    splits = [f"split {name}: {count}" for name, count in sorted(found["splits"].items())]
    lines = [
        f"{path}: readable",
        f"  participants  {found['n_participants']}; {', '.join(splits)}",
        f"  turns         {turns['least']} to {turns['most']}, median {turns['median']:g}",
        f"  total ≥ 10    {found['n_total_10_or_more']}",
    ]
    for key, counts in found["scores"].items():
        lines.append(f"  {key:<13} {' / '.join(map(str, counts))} with score 0 / 1 / 2 / 3")
    return "\n".join(lines)


def synthetic_interviews(
    n_participants: int, *, seed: int, withheld_rate: float
) -> list[LabelledInterview]:
    """Return the interviews of the embedded cohort with their scores and splits.

    The splits must be kept: their wording differs.
    """
    cohort = draw_cohort(n_participants, seed=seed)
    splits = draw_splits(n_participants, seed=seed, test_size=SuiteConfig().test_size)
    return [
        LabelledInterview(
            write_interview(person, seed=seed, withheld_rate=withheld_rate, split=split).transcript,
            person.scores,
            split.value,
        )
        for person, split in zip(cohort, splits, strict=True)
    ]


def summary(interviews: Sequence[LabelledInterview]) -> JsonObject:
    """Count what interviews hold, without a word of them."""
    totals = [sum(interview.scores) for interview in interviews]
    return {
        "n_participants": len(interviews),
        "n_turns": _spread([len(interview.transcript.turns) for interview in interviews]),
        "n_characters": _spread([len(interview.transcript.text()) for interview in interviews]),
        "splits": dict(Counter(interview.split or "not named" for interview in interviews)),
        "n_total_10_or_more": sum(total >= 10 for total in totals),
        "scores": {
            key: [
                sum(one.scores[column] == score for one in interviews) for score in range(N_SCORES)
            ]
            for column, key in enumerate(ITEM_KEYS)
        },
    }


def _spread(counts: Sequence[int]) -> JsonObject:
    return {"least": min(counts), "median": median(counts), "most": max(counts)}
