"""The kidney suite under `krisis data`: write patients of the cohort."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.uci import uci_text
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import write_text


def write(
    out: Path = typer.Option(..., "--output", metavar="FILE", help="The CSV file to write."),
    n_patients: int = typer.Option(400, "--n-patients", help="How many patients."),
    seed: int = typer.Option(42, "--seed", help="The same seed gives the same bytes."),
    with_sex: bool = typer.Option(False, "--with-sex", help="Add sex as a 27th column."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing file."),
) -> None:
    """Write patients of the embedded cohort in the 26 columns of the UCI file.

    Example:  krisis data ckd --output cohort.csv --n-patients 400 --seed 42
    """
    if n_patients < 2:
        raise InvalidValue(f"--n-patients must be 2 or more, not {n_patients}")
    if seed < 0:
        raise InvalidValue(f"--seed must be 0 or more, not {seed}")
    if out.is_dir():
        raise InvalidFile(f"{out} is a directory; give the name of a file in it")
    if not out.parent.is_dir():
        raise InvalidFile(f"there is no directory {out.parent}; create it or choose another")
    text = uci_text(draw_cohort(n_patients, seed=seed), with_sex=with_sex)
    write_text(out, text, overwrite=overwrite, private=False)
    typer.echo(f"Wrote {n_patients} synthetic patients to {out}")
