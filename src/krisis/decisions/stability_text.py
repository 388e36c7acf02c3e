"""The stability of a run in words."""

from __future__ import annotations

from krisis.decisions.stability import Agreement, Places, Stability


def stability_lines(found: Stability) -> list[str]:
    """Return the stability of a run in words."""
    parts = [*([found.repeats] if found.repeats else []), *found.perturbations, *found.against]
    lines = ["Stability"]
    if not parts and found.places is None:
        return [*lines, "  Each record was asked once: ask with --repeats or --perturb."]
    for one in parts:
        lines += _agreement_lines(one)
    if found.places is not None:
        lines += _place_lines(found.places)
    return [*lines, *(f"  {sentence}" for sentence in found.assumptions)]


def _agreement_lines(one: Agreement) -> list[str]:
    # With --repeats every repeat of a record is one pair.
    words = "pairs of askings" if one.accuracy is not None else "records asked again"
    lines = [
        (
            f"  {one.name}: {one.n_cases} {words} of {one.n_patients} patients; left out: "
            f"{one.n_failed} with an asking without a reply, {one.n_not_asked} not asked in both "
            "forms"
        ),
        f"    answer flips        {one.answer_flips} pairs of answers",
        f"    abstention flips    {one.abstention_flips} pairs",
        f"    SD of confidence    {one.confidence_sd} {words}",
        (
            f"    variance between cases: confidence {one.confidence_between}, correctness "
            f"{one.correct_between} {words}"
        ),
    ]
    for words, shift in (("accuracy", one.accuracy), ("abstention rate", one.abstention)):
        if shift is not None:
            change = f"{shift.first:.3f} → {shift.second:.3f}"
            lines.append(f"    {words:<19} {change} (paired test by patient, p = {shift.p:.3g})")
    return lines


def _place_lines(places: Places) -> list[str]:
    cells = ", ".join(
        f"{one['place']:.0f}: {one['accuracy']:.3f} / {one['abstention']:.3f} (n {one['n']:.0f})"
        for one in places.shares
    )
    lines = [f"  place in the call, accuracy / abstention: {cells}"]
    if places.reason:
        return [*lines, f"    no trend test: {places.reason}"]
    return [
        *lines,
        (
            f"    change per place: accuracy {places.accuracy_slope:+.4f} (p = "
            f"{places.accuracy_p:.3g}), abstention {places.abstention_slope:+.4f} (p = "
            f"{places.abstention_p:.3g}); permutation within calls"
        ),
    ]
