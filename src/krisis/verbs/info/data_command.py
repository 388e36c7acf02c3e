"""`krisis data`: write the data of the suites, and check files of one's own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from krisis import registry
from krisis.backends.prompt import build_prompt
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.data.base import SuiteConfig
from krisis.data.table.check import check_suite, problem_lines
from krisis.data.table.sheet import sheet_text
from krisis.display import TextOrJson
from krisis.errors import InvalidFile
from krisis.json_values import dumps
from krisis.results.artefacts import kind_of, refused

app = new_app("Write and check data files of the suites.")

for _name in registry.names("commands"):
    command(app, name=_name)(registry.find("commands", _name))


@command(app, "krisis data check clinic.yaml", "krisis data check clinic.yaml --format json")
def check(
    file: Path = typer.Argument(..., help="The YAML file of a table suite."),
    task: str | None = typer.Option(None, "--task"),
    data_path: Path | None = typer.Option(
        None,
        "--data-path",
        metavar="FILE",
    ),
    output_format: TextOrJson = typer.Option(TextOrJson.TABLE, "--format"),
) -> None:
    """Print the data sheet of a table suite and all its problems.

    Problems are listed by severity, each with the line to change. Exits 2 when the file cannot be
    used: a wrong key, a value that cannot be read, a leak of the label. Columns that no task uses
    are not checked.
    """
    if not file.is_file():
        raise InvalidFile(f"there is no file {file}; give the YAML file of a table suite")
    if kind_of(file) == "run" and (refusal := refused(file, "the file of a suite")):
        raise refusal
    if not registry.is_suite_file(str(file)):
        raise InvalidFile(
            f"{file} is no YAML file; of a table of your own, type: krisis init {file}, then: "
            f"krisis data check {file.with_suffix('.yaml')}"
        )
    _sheet(file, SuiteConfig(task=task) if task else SuiteConfig(), data_path, output_format)


def _sheet(
    file: Path, config: SuiteConfig, data_path: Path | None, output_format: TextOrJson
) -> None:
    checked = check_suite(file, config, data_path)
    prompts = {}
    for name, (table, first) in checked.tables.items():
        if first is not None:
            prompt = build_prompt(table.task, [first.features], context=first.context)
            prompts[name] = f"{prompt.system}\n\n{prompt.user}"
    if output_format is TextOrJson.JSON:
        problems = [asdict(problem) for problem in checked.problems]
        echo_json(dumps({**checked.sheet, "problems": problems, "first_prompt": prompts}))
    else:
        if checked.sheet:
            typer.echo(sheet_text(checked.sheet, prompts) + "\n")
        typer.echo("\n".join(problem_lines(checked.problems, file)))
    if fatal := checked.fatal:
        more = f" (and {len(fatal) - 1} more above)" if len(fatal) > 1 else ""
        raise InvalidFile(f"{fatal[0].sentence}{more}")
