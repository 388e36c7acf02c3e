"""`krisis import`: finished predictions of other programs as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer
from pydantic import ValidationError

from krisis.cli.console import print_document
from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue, UnknownName
from krisis.execution.imported.base import ImportOptions
from krisis.execution.imported.run import read_file, write_run
from krisis.json_values import JsonObject
from krisis.yaml_values import read_mapping

app = new_app()


@command(
    app,
    "krisis import logs/LOG.eval --as inspect --confidence metadata:confidence",
    "krisis import samples_TASK.jsonl --as lm-eval",
    "krisis import answers.csv --as csv --truth label --prediction answer",
    "krisis import a.csv --as csv --truth label --prediction dr_a --reader dr_a",
)
def import_run(
    files: list[Path] = typer.Argument(..., help="Logs or tables; each becomes a run of its own."),
    kind: Literal["inspect", "lm-eval", "csv", "jsonl", "parquet"] = typer.Option(
        ..., "--as", help="What the files are: inspect, lm-eval, csv, jsonl or parquet."
    ),
    out: Path = typer.Option(
        Path("runs"), "--out", "-o", metavar="FOLDER", help="The folder for new runs."
    ),
    columns: Path | None = typer.Option(
        None, "--columns", help="YAML file with these options by name; options given here win."
    ),
    truth: str = typer.Option("", help="Column of the right answer."),
    prediction: str = typer.Option("", help="Column of the model's answer."),
    confidence: str = typer.Option(
        "", help="Column; of a log score:NAME, metadata:KEY or pattern:REGEX of the reply."
    ),
    confidence_scale: float | None = typer.Option(None, help="What full confidence is, as 100."),
    abstained: str = typer.Option("", help="Column that says whether the model abstained."),
    failed: str = typer.Option("", help="Column that says whether or why there is no answer."),
    record_id: str = typer.Option("", "--id", help="Column of the record's id."),
    repeat: str = typer.Option("", help="Column that counts the askings of a record from 1."),
    patient: str = typer.Option("", help="Column or metadata key of the patient."),
    should_defer: str = typer.Option("", help="Column or metadata key of the deferral label."),
    group: list[str] = typer.Option([], help="Column or key to break results down by; repeatable."),
    answers: str = typer.Option("", help="All answers, as 0=no,1=yes; a right answer must be one."),
    ordinal: bool = typer.Option(False, "--ordinal", help="The answers are in their order."),
    positive: str | None = typer.Option(None, help="The answer whose sensitivity is reported."),
    price: float | None = typer.Option(
        None, help="Cost of one deferral relative to one wrong answer (0.2 = a fifth)."
    ),
    abstain_answer: list[str] = typer.Option(
        [], help="An answer, or the words of an option, that means abstaining; repeatable."
    ),
    empty: str | None = typer.Option(
        None, help="What an empty answer is: abstained, no_answer, or unread (no row)."
    ),
    scorer: str = typer.Option(
        "", help="Inspect: the scorer whose answers are taken, or NAME.KEY for one of its values."
    ),
    metric: str = typer.Option("", help="lm-eval: the metric that tells right from wrong."),
    chosen_filter: str = typer.Option("", "--filter", help="lm-eval: the filter to take."),
    model: str = typer.Option("", help="The name of the model, where the file has none."),
    reader: str = typer.Option(
        "", metavar="NAME", help="Name of the person whose answers these are."
    ),
    task: str = typer.Option("", help="The name of the task, in place of the file's."),
    suite: str = typer.Option("", help="The name of the suite, in place of the file's."),
) -> None:
    """Turn finished predictions into runs that score, compare, report and the others take."""
    given = dict(locals())
    named = {"record_id": "id", "chosen_filter": "filter"}
    content = {named.get(name, name): value for name, value in given.items()}
    options = _options(columns, {k: content[k] for k in ImportOptions.model_fields})
    read = [read_file(path, kind, options) for path in files]  # nothing is written if one fails
    for one in read:
        result = write_run(one, out)
        print_document(result.document())
        if one.taken.n_unread:
            typer.echo(one.taken.reading_words)
        typer.echo(f"Run: {result.provenance.run_file}")


def _options(columns: Path | None, given: JsonObject) -> ImportOptions:
    content: JsonObject = {}
    if columns is not None:
        content = read_mapping(columns, "options such as `truth: label`", option="--columns")
    for name in content:
        if name not in ImportOptions.model_fields:
            raise UnknownName.among(f"option of {columns}:", str(name), ImportOptions.model_fields)
    said = {
        n: value for n, value in given.items() if value not in ("", [], None) and value is not False
    }
    try:
        return ImportOptions.model_validate({**content, **said})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).replace("_", "-")
        raise InvalidValue(f"--{name}: {first['msg']}, not {first['input']!r}") from None
