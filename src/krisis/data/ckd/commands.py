"""The kidney suite under `krisis data`: write patients of the cohort, check a file of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.egfr import ADULT_AGE_YEARS
from krisis.data.ckd.uci import LICENCE, SOURCE, PatientFile, UciPatient, read_uci, uci_text
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonObject, write_text


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


def check_uci(file: Path, *, sex_column: str | None, as_json: bool) -> None:
    """Read a file as the suite would and say what was found, or what must be corrected."""
    found = summary(read_uci(file, sex_column=sex_column))
    typer.echo(json.dumps(found, indent=2) if as_json else _text(found))


def summary(file: PatientFile[UciPatient]) -> JsonObject:
    """Return what `krisis data check` prints."""
    n_ckd = sum(patient.has_ckd for patient in file.patients)
    ages = [patient.values["age"] for patient in file.patients]
    complete = [None not in patient.values.values() for patient in file.patients]
    return {
        "file": str(file.path),
        "sha256": file.sha256,
        "n_bytes": file.n_bytes,
        "n_patients": len(file.patients),
        "n_ckd": n_ckd,
        "n_notckd": len(file.patients) - n_ckd,
        "n_complete": sum(complete),
        "n_under_18": sum(age is not None and age < ADULT_AGE_YEARS for age in ages),
        "n_with_sex": sum(patient.female is not None for patient in file.patients),
        "n_missing": file.n_missing.total(),
        "missing_by_column": {name: count for name, count in file.n_missing.items() if count},
        "anomalies_normalised": dict(sorted(file.anomalies.items())),
        "implausible_values": [
            {"id": name, "column": column, "value": value}
            for name, column, value in file.implausible
        ],
        "licence": f"{LICENCE} if this is the file of {SOURCE}; other data keep their own",
    }


def _text(found: JsonObject) -> str:
    missing = ", ".join(f"{name} {count}" for name, count in found["missing_by_column"].items())
    corrected = [f"{what} ({count})" for what, count in found["anomalies_normalised"].items()]
    implausible = [
        f"{entry['column']} {entry['value']:g} (id {entry['id']})"
        for entry in found["implausible_values"]
    ]
    lines = [
        f"{found['file']}: readable",
        f"  sha256     {found['sha256']}",
        (
            f"  patients   {found['n_patients']}: {found['n_ckd']} ckd, {found['n_notckd']} notckd"
            f"; {found['n_complete']} complete, {found['n_under_18']} under 18, "
            f"{found['n_with_sex']} with sex"
        ),
        f"  missing    {found['n_missing']} values" + (f": {missing}" if missing else ""),
        f"  corrected  {'; '.join(corrected) or 'nothing'}",
        f"  implausible, kept and deferred  {'; '.join(implausible) or 'nothing'}",
        f"  licence    {found['licence']}",
    ]
    return "\n".join(lines)
