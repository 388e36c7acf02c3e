"""The interviews under `krisis data`: write the embedded ones, check one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import typer

from krisis.data.base import SuiteConfig
from krisis.data.phq8.corpus import Corpus, LabelledInterview, read_corpus, write_directory
from krisis.data.phq8.findings import Kind
from krisis.data.phq8.interviews import Cohort, draw_cohort, draw_splits, write_interview
from krisis.data.phq8.items import ITEM_KEYS, N_SCORES
from krisis.display import TextOrJson
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject


def write(
    out: Path = typer.Option(..., "--output", metavar="FOLDER", help="The new folder to write."),
    n_participants: int = typer.Option(200, "--n-participants", help="How many participants."),
    seed: int = typer.Option(42, "--seed", help="The same seed gives the same bytes."),
    withheld_rate: float = typer.Option(
        0.3, "--withheld-rate", help="Share of the items without evidence."
    ),
    cohort: Cohort = typer.Option(
        Cohort.COMMUNITY, "--cohort", help="community (adults at large) or clinic."
    ),
) -> None:
    """Write interviews of the embedded cohort in the layout of DAIC-WOZ.

    Example:  krisis data phq8 --output interviews --n-participants 40
    """
    if n_participants < 1 or seed < 0 or not 0 <= withheld_rate <= 1:
        raise InvalidValue(
            "--n-participants must be 1 or more, --seed 0 or more and --withheld-rate between 0 "
            f"and 1, not {n_participants}, {seed} and {withheld_rate:g}"
        )
    interviews = synthetic_interviews(
        n_participants, seed=seed, withheld_rate=withheld_rate, cohort=cohort
    )
    write_directory(out, interviews)
    typer.echo(f"Wrote {n_participants} synthetic interviews to {out}")


def check(
    path: Path = typer.Argument(..., help="A directory of transcripts."),
    labels: Path | None = typer.Option(
        None,
        "--labels",
        metavar="PATH",
        help="The labels file of a directory, or the folder of several.",
    ),
    output_format: TextOrJson = typer.Option(
        TextOrJson.TABLE, "--format", help="table (to read) or json."
    ),
) -> None:
    """Read interviews as the phq8 suite would and report all that is wrong in one go.

    What must be corrected, what is left out and what was noticed, each with file, line, column and
    value; then the counts of what can be used. Nothing that was said is printed. The exit code is 2
    where something must be corrected.

    Example:  krisis data check-interviews interviews
    """
    corpus = read_corpus(path, labels)
    faults = corpus.findings.of_kind("fault")
    if output_format is TextOrJson.JSON:
        typer.echo(json.dumps(_report(corpus), indent=2))
    else:
        typer.echo(_text(corpus))
    if faults:
        typer.echo(f"krisis: {path}: {len(faults)} to be corrected, see the report", err=True)
        raise typer.Exit(2)


def _report(corpus: Corpus) -> JsonObject:
    findings = corpus.findings
    return {
        "readable": not findings.of_kind("fault"),
        "n_faults": len(findings.of_kind("fault")),
        "participants_left_out": corpus.left_out,
        **summary(corpus.interviews),
        "findings": [finding.as_json() for finding in findings],
    }


def _text(corpus: Corpus) -> str:
    findings = corpus.findings
    state = "NOT READABLE YET" if findings.of_kind("fault") else "readable"
    lines = [f"{corpus.path}: {state}"]
    titles: dict[Kind, str] = {
        "fault": "must be corrected",
        "left_out": "left out",
        "note": "noted",
    }
    for kind, title in titles.items():
        found = findings.of_kind(kind)
        lines += [f"{title} ({len(found)}):"] if found else []
        lines += [f"  {finding}" for finding in found]
    if corpus.interviews:
        lines += ["can be used:", *_counts(summary(corpus.interviews))]
    return "\n".join(lines)


def _counts(found: JsonObject) -> list[str]:
    turns = found["n_turns"]
    splits = [f"split {name}: {count}" for name, count in sorted(found["splits"].items())]
    lines = [
        f"  participants  {found['n_participants']}; {', '.join(splits)}",
        f"  turns         {turns['least']} to {turns['most']}, median {turns['median']:g}",
        f"  total ≥ 10    {found['n_total_10_or_more']} of {found['n_complete']} with all items",
    ]
    for key, counts in found["scores"].items():
        lines.append(f"  {key:<13} {' / '.join(map(str, counts))} with score 0 / 1 / 2 / 3")
    return lines


def synthetic_interviews(
    n_participants: int, *, seed: int, withheld_rate: float, cohort: Cohort = Cohort.COMMUNITY
) -> list[LabelledInterview]:
    """Return the interviews of the embedded cohort with their scores and splits.

    The splits must be kept: their wording differs.
    """
    people = draw_cohort(n_participants, seed=seed, cohort=cohort)
    splits = draw_splits(n_participants, seed=seed, test_size=SuiteConfig().held_out_share)
    return [
        LabelledInterview(
            write_interview(person, seed=seed, withheld_rate=withheld_rate, split=split).transcript,
            person.scores,
            split.value,
        )
        for person, split in zip(people, splits, strict=True)
    ]


def summary(interviews: Sequence[LabelledInterview]) -> JsonObject:
    """Count what interviews hold, without a word of them."""
    complete = [one for one in interviews if len(one.items) == len(ITEM_KEYS)]
    return {
        "n_participants": len(interviews),
        "n_complete": len(complete),
        "n_turns": _spread([len(interview.transcript.turns) for interview in interviews]),
        "n_characters": _spread([len(interview.transcript.text()) for interview in interviews]),
        "splits": dict(Counter(interview.split or "not named" for interview in interviews)),
        "n_total_10_or_more": sum(sum(one.items.values()) >= 10 for one in complete),
        "scores": {
            key: [
                sum(one.scores[column] == score for one in interviews) for score in range(N_SCORES)
            ]
            for column, key in enumerate(ITEM_KEYS)
        },
    }


def _spread(counts: Sequence[int]) -> JsonObject | None:
    if not counts:
        return None
    return {"least": min(counts), "median": median(counts), "most": max(counts)}
