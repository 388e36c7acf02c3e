"""The document of a check, and its report as JUnit XML."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from krisis.pages.document import Column, Document, Section, Table
from krisis.pages.numbers import Estimate, change, count, figure, level
from krisis.verbs.check.gate import Check, Judged, State

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_document(check: Check) -> Document:
    """Return all there is to show of a check: one row per requirement."""
    table = Table.of(
        check.verdicts,
        {
            Column("name", "state"): lambda one: one.state.upper(),
            Column("name", "requirement"): lambda one: one.requirement,
            Column("figure", "found", "the metric, or its change against the other run"): _found,
            Column("name", "note"): _note,
        },
    )
    return Document(
        title=f"{check_name(check)}: {counts_of(check)}",
        sections=[Section(key="requirements", title="Requirements", parts=[table])],
    )


def check_name(check: Check) -> str:
    """Name a check by its run."""
    return f"krisis check {check.run}".strip()


def counts_of(check: Check) -> str:
    """Say how many requirements are met, failed and not judged.

    >>> counts_of(Check((Judged(requirement="accuracy >= 0.5", state="met"),)))
    '1 met, 0 failed, 0 not judged'
    """
    states: tuple[State, ...] = ("met", "failed", "not judged")
    return ", ".join(f"{sum(v.state == s for v in check.verdicts)} {s}" for s in states)


def _found(one: Judged) -> Estimate | None:
    if one.value is None:
        return None
    return Estimate.of(one.value, one.interval, bound=one.limit)


def _note(one: Judged) -> str:
    if one.bounds is None:
        return one.reason or ("change" if one.is_change else "")
    low, high = (figure(Estimate(end, bound=one.limit)) for end in one.bounds)
    return (
        f"depends on the missing cases: {low} to {high} once the {count(one.n_not_evaluated)} that "
        "were not evaluated are known"
    )


def found_words(one: Judged) -> str:
    """Say in one sentence what was found of one requirement."""
    estimate = _found(one)
    if estimate is None:
        return one.reason
    at = f", {level(estimate.level)} interval" if estimate.has_interval else ""
    value = change(estimate) if one.is_change else figure(estimate)
    note = f"; {_note(one)}" if one.bounds is not None else ""
    return f"{'change' if one.is_change else one.metric} {value}{at}{note}"


def junit_xml(check: Check) -> str:
    """Return JUnit XML, a failed requirement as a failure and one not judged as an error."""
    states = [verdict.state for verdict in check.verdicts]
    counts = {
        "name": _NOT_XML.sub("\ufffd", check_name(check)),
        "tests": str(len(check.verdicts)),
        "failures": str(states.count("failed")),
        "errors": str(states.count("not judged")),
        "time": "0",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {**counts, "skipped": "0"})
    for verdict in check.verdicts:
        requirement, found = (
            _NOT_XML.sub("\ufffd", text) for text in (verdict.requirement, found_words(verdict))
        )
        named = {"name": requirement, "classname": "krisis.check", "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", named)
        if verdict.state == "met":
            ElementTree.SubElement(case, "system-out").text = found
        else:
            tag = "failure" if verdict.state == "failed" else "error"
            facts = {"message": found, "type": verdict.state}
            ElementTree.SubElement(case, tag, facts).text = f"{requirement}: {found}"
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
