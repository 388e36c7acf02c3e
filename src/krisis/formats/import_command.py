"""`krisis import`: finished predictions of other programs as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer
from pydantic import ValidationError

from krisis.cli.console import print_document
from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue, UnknownName
from krisis.formats.base import ImportOptions
from krisis.formats.imported_run import read_file, write_run
from krisis.json_values import JsonObject
from krisis.yaml_values import read_mapping

app = new_app()


@command(
    app,
    "krisis import logs/LOG.eval --as inspect --confidence metadata:confidence",
    "krisis import samples_TASK.jsonl --as lm-eval",
    "krisis import answers.csv --as csv --truth label --prediction answer",
    "krisis import a.csv --as csv --truth y --prediction dr_a --reader dr_a",
)
def import_run(
    files: list[Path] = typer.Argument(..., help="Logs or tables; each becomes a run of its own."),
    kind: Literal["inspect", "lm-eval", "csv", "jsonl", "parquet"] = typer.Option(..., "--as"),
    out: Path = typer.Option(Path("runs"), "--output", "-o", metavar="FOLDER"),
    columns: Path | None = typer.Option(None, "--columns"),
    truth: str = typer.Option(""),
    prediction: str = typer.Option(""),
    confidence: str = typer.Option(""),
    confidence_scale: float | None = typer.Option(None),
    abstained: str = typer.Option(""),
    error: str = typer.Option(""),
    record_id: str = typer.Option("", "--id"),
    repeat: str = typer.Option(""),
    patient: str = typer.Option(""),
    should_defer: str = typer.Option(""),
    group: list[str] = typer.Option([]),
    answers: str = typer.Option(""),
    ordinal: bool = typer.Option(False, "--ordinal"),
    positive: str | None = typer.Option(None),
    costs: Path | None = typer.Option(None, "--costs"),
    price: float | None = typer.Option(None),
    abstain_answer: list[str] = typer.Option([]),
    empty: str | None = typer.Option(None),
    scorer: str = typer.Option(""),
    judged_by: str = typer.Option(""),
    chosen_filter: str = typer.Option("", "--filter"),
    model: str = typer.Option(""),
    reader: str = typer.Option("", metavar="NAME"),
    task: str = typer.Option(""),
    suite: str = typer.Option(""),
) -> None:
    """Turn finished predictions into runs that score, compare, report and the others take."""
    given = dict(locals())
    named = {"record_id": "id", "chosen_filter": "filter"}
    content = {named.get(name, name): value for name, value in given.items()}
    content["costs"] = None if costs is None else str(costs)
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
