"""`krisis data`: write the data of the suites, and check files of one's own."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis import registry
from krisis.backends.prompt import build_prompt
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.data.base import SuiteConfig
from krisis.data.ckd.commands import check_uci
from krisis.data.table.sheet import data_sheet, sheet_text
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import dumps

app = new_app("Write and check data files of the suites.")

for _name in registry.names("commands"):
    command(app, name=_name)(registry.find("commands", _name))


@command(app, "krisis data check clinic.yaml", "krisis data check cohort.csv --json")
def check(
    file: Path = typer.Argument(
        ..., help="The YAML file of a table suite, or a CSV or ARFF file of the kidney suite."
    ),
    task: str | None = typer.Option(None, "--task", help="Only this task of the YAML file."),
    sex_column: str | None = typer.Option(
        None, "--sex-column", help="A column of the kidney suite's file that holds sex."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of text."),
) -> None:
    """Print the data sheet of a table suite, or what the kidney suite reads in a file.

    Exits 2 when the file cannot be used: a wrong key, an open TODO, a leak of the label.
    """
    is_suite = registry.is_suite_file(str(file))
    if is_suite and sex_column is not None:
        raise InvalidValue(
            "--sex-column is for files of the kidney suite; name columns in the YAML"
        )
    if not is_suite and task is not None:
        raise InvalidValue(f"--task is for the YAML file of a table suite, and {file} is none")
    if is_suite:
        _sheet(file, task, as_json=as_json)
        return
    try:
        check_uci(file, sex_column=sex_column, as_json=as_json)
    except InvalidFile as error:
        if not file.is_file():
            raise
        raise InvalidFile(f"{error}; if it is another table, type: krisis init {file}") from None


def _sheet(file: Path, task: str | None, *, as_json: bool) -> None:
    config = SuiteConfig(task=task) if task else SuiteConfig()
    sheet, tables = data_sheet(file, config)
    prompts = {}
    for name, (table, first) in tables.items():
        if first is not None:
            prompt = build_prompt(table.task, [first.features], context=first.context)
            prompts[name] = f"{prompt.system}\n\n{prompt.user}"
    if as_json:
        echo_json(dumps({**sheet, "first_prompt": prompts}))
    else:
        typer.echo(sheet_text(sheet, prompts))
    leaks = [leak for one in sheet["tasks"].values() for leak in one["leaks"]]
    if leaks:
        more = f" (and {len(leaks) - 1} more above)" if len(leaks) > 1 else ""
        raise InvalidFile(f"{leaks[0]}{more}")
