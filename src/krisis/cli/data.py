"""`krisis data`: write the data of the suites, and check files of one's own."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import typer

from krisis import registry
from krisis.backends.prompt import build_prompt
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.data.base import SuiteConfig
from krisis.data.ckd.commands import check_uci
from krisis.data.ckd.uci import COLUMNS, read_file
from krisis.data.table.check import check_suite, problem_lines
from krisis.data.table.sheet import sheet_text
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import dumps
from krisis.results.artefacts import kind_of, refused

app = new_app("Write and check data files of the suites.")

for _name in registry.names("commands"):
    command(app, name=_name)(registry.find("commands", _name))


@command(app, "krisis data check clinic.yaml", "krisis data check cohort.csv --json")
def check(
    file: Path = typer.Argument(
        ..., help="The YAML file of a table suite, or a CSV or ARFF file of the kidney suite."
    ),
    task: str | None = typer.Option(None, "--task"),
    sex_column: str | None = typer.Option(None, "--sex-column"),
    data_path: Path | None = typer.Option(
        None,
        "--data-path",
        metavar="FILE",
    ),
    as_json: bool = typer.Option(False, "--json"),
) -> None:
    """Print the data sheet of a table suite and all its problems, or check a kidney table.

    Problems are listed by severity, each with the line to change. Exits 2 when the file cannot be
    used: a wrong key, a value that cannot be read, a leak of the label. Columns that no task uses
    are not checked.
    """
    is_suite = registry.is_suite_file(str(file))
    if is_suite and sex_column is not None:
        raise InvalidValue(
            "--sex-column is for files of the kidney suite; name columns in the YAML"
        )
    if not is_suite and task is not None:
        raise InvalidValue(f"--task is for the YAML file of a table suite, and {file} is none")
    if is_suite:
        _sheet(file, SuiteConfig(task=task) if task else SuiteConfig(), data_path, as_json=as_json)
        return
    if data_path is not None:
        raise InvalidValue("--data-path is for the YAML file of a table suite")
    if kind_of(file) == "run" and (refusal := refused(file, "a suite or a kidney table")):
        raise refusal
    if _is_other_table(file):
        read_file(file)  # why it cannot be read at all goes before what it lacks
        raise InvalidFile(
            f"{file} is a table that no suite describes; type: krisis init {file}, then: krisis "
            f"data check {file.with_suffix('.yaml')}"
        )
    check_uci(file, sex_column=sex_column, as_json=as_json)


def _is_other_table(file: Path) -> bool:
    """Tell whether a table has fewer than half of the columns of the kidney tables."""
    if not file.is_file() or file.suffix.lower() == ".arff":
        return False
    with file.open(encoding="utf-8", errors="replace") as opened:
        header = re.split(r"[,;\t|]", opened.readline(100_000).lower().replace('"', ""))
    names = {name.strip() for name in header} - {""}
    # Of an empty file, or one with an empty first line, the reader of kidney tables says so.
    return bool(names) and 2 * len(names & {*COLUMNS}) < len(COLUMNS)


def _sheet(file: Path, config: SuiteConfig, data_path: Path | None, *, as_json: bool) -> None:
    checked = check_suite(file, config, data_path)
    prompts = {}
    for name, (table, first) in checked.tables.items():
        if first is not None:
            prompt = build_prompt(table.task, [first.features], context=first.context)
            prompts[name] = f"{prompt.system}\n\n{prompt.user}"
    if as_json:
        problems = [asdict(problem) for problem in checked.problems]
        echo_json(dumps({**checked.sheet, "problems": problems, "first_prompt": prompts}))
    else:
        if checked.sheet:
            typer.echo(sheet_text(checked.sheet, prompts) + "\n")
        typer.echo("\n".join(problem_lines(checked.problems, file)))
    if fatal := checked.fatal:
        more = f" (and {len(fatal) - 1} more above)" if len(fatal) > 1 else ""
        raise InvalidFile(f"{fatal[0].sentence}{more}")
