"""Read FHIR R4 resources from bulk-export NDJSON and from bundles, one after another."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, JsonValue, parse_object

_SUFFIXES = (".ndjson", ".ndjson.gz", ".jsonl", ".json")
_BUNDLES = ("transaction", "batch", "collection", "searchset", "document")
# Withdrawn, never carried out or refuted: no finding of the patient.
_WITHDRAWN = frozenset({"entered-in-error", "cancelled", "not-done", "refuted"})
_OWNERS = ("subject", "patient", "beneficiary")


@dataclass(frozen=True, slots=True)
class Located:
    """One resource and where it was found."""

    resource: JsonObject
    kind: str
    # The name by which others refer to the resource.
    key: str
    file: Path
    line: int = 0
    full_url: str = ""

    @property
    def place(self) -> str:
        """Return file, line and name of the resource."""
        line = f", line {self.line}" if self.line else ""
        return f"{self.file}{line} ({self.key or self.kind})"

    @property
    def is_withdrawn(self) -> bool:
        """Say whether the status tells that this is no finding."""
        verification = self.resource.get("verificationStatus") or {}
        codes = verification.get("coding") or [] if isinstance(verification, dict) else []
        stated = {self.resource.get("status"), *(c.get("code") for c in codes)}
        return bool(_WITHDRAWN & stated)

    def reference(self, *names: str) -> str:
        """Return what the first of these elements refers to, or nothing."""
        for name in names:
            element = self.resource.get(name)
            if isinstance(element, dict) and isinstance(element.get("reference"), str):
                return str(element["reference"]).partition("/_history/")[0]
        return ""

    @property
    def owner(self) -> str:
        """Return the reference to whom the resource is about, or nothing."""
        return self.reference(*_OWNERS)


def read_resources(place: Path, kinds: Collection[str]) -> Iterator[Located]:
    """Yield the resources of these types from a file or every file of a folder, in order of name.

    All resources of a bundle are yielded: its references may lead to any of them.
    """
    marks = [f'"{kind}"' for kind in kinds]
    for file in fhir_files(place):
        if file.suffix == ".json":
            yield from _of_json(file)
            continue
        for number, line in enumerate(_lines(file), 1):
            # A line of another type is not even parsed.
            if any(mark in line for mark in marks):
                yield _located(parse_object(line, f"{file}, line {number}"), file, number)


def fhir_files(place: Path) -> list[Path]:
    """Return the files of a place that are read, in order of name."""
    if not place.exists():
        raise InvalidFile(f"{place} does not exist; check the path after fhir:")
    if not place.is_dir():
        if not place.name.endswith(_SUFFIXES):
            raise InvalidFile(
                f"{place} is neither NDJSON nor a JSON bundle; name a file that ends in "
                f"{', '.join(_SUFFIXES)}, or a folder of them"
            )
        return [place]
    found = sorted(path for path in place.rglob("*") if path.name.endswith(_SUFFIXES))
    files = [path for path in found if path.is_file() and not path.name.startswith(".")]
    if not files:
        raise InvalidFile(
            f"{place} holds no FHIR file; export resources as {', '.join(_SUFFIXES)} into it"
        )
    return files


def _lines(file: Path) -> Iterator[str]:
    opener = gzip.open if file.suffix == ".gz" else open
    try:
        with opener(file, "rt", encoding="utf-8-sig") as lines:
            yield from lines
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{file} cannot be read as text in UTF-8: {error}") from None


def _of_json(file: Path) -> Iterator[Located]:
    content = parse_object("".join(_lines(file)), str(file))
    kind = content.get("resourceType")
    if kind is None:
        raise InvalidFile(
            f"{file} is no FHIR resource: it has no resourceType; name a Bundle, or remove it"
        )
    if kind != "Bundle":
        yield _located(content, file, 0)
        return
    entries: JsonValue = content.get("entry", [])
    if content.get("type") not in _BUNDLES or not isinstance(entries, list):
        raise InvalidFile(
            f"{file} is a Bundle of the type {content.get('type')!r}; the types read are "
            f"{', '.join(_BUNDLES)}"
        )
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise InvalidFile(f"{file}: entry {number} of the Bundle is not an object")
        if "resource" in entry and (entry.get("request") or {}).get("method") != "DELETE":
            resource = entry["resource"]
            url = str(entry.get("fullUrl") or "")
            yield _located(resource, file, 0, url or f"entry {number} of {file.name}")


def _located(resource: JsonValue, file: Path, line: int, full_url: str = "") -> Located:
    place = f"{file}, line {line}" if line else f"{file}, {full_url}" if full_url else str(file)
    if not isinstance(resource, dict) or not isinstance(resource.get("resourceType"), str):
        raise InvalidFile(f"{place} is no FHIR resource: it has no resourceType")
    if release := _other_release(resource):
        raise InvalidFile(f"{place} looks like FHIR {release}, and only R4 is read; convert it")
    kind, name = resource["resourceType"], resource.get("id")
    return Located(resource, kind, f"{kind}/{name}" if name else full_url, file, line, full_url)


def _other_release(resource: JsonObject) -> str:
    """Name the release of a resource by elements that R4 has in another form."""
    if isinstance(resource.get("clinicalStatus"), str):
        return "STU3 or older (clinicalStatus is a code)"
    if resource["resourceType"] == "Encounter" and isinstance(resource.get("class"), list):
        return "R5 (Encounter.class is a list)"
    medication = resource.get("medication")
    if isinstance(medication, dict) and {"concept", "reference"} & medication.keys():
        return "R5 (medication is a CodeableReference)"
    return ""
