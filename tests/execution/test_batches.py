"""Batches: every case once, groups whole, contexts and repeats apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from krisis.data.base import PatientRecord
from krisis.execution.batches import cases_of, plan_batches

records = st.lists(
    st.builds(
        lambda x, group, context: PatientRecord({"x": x}, 0, group=group, context=context),
        st.integers(0, 99),
        st.sampled_from(["", "", "a", "b"]),
        st.just(""),
    ),
    min_size=1,
    max_size=40,
)


@given(records, st.integers(1, 9), st.integers(1, 3))
def test_every_case_travels_exactly_once(
    given_records: list[PatientRecord], batch_size: int, repeats: int
) -> None:
    cases = cases_of(given_records, repeats)
    batches = plan_batches(cases, batch_size)
    positions = [case.position for batch in batches for case in batch]
    assert sorted(positions) == list(range(len(given_records) * repeats))
    assert all(batches)


@given(records, st.integers(1, 9), st.integers(1, 3))
def test_groups_are_whole_and_only_they_exceed_the_size(
    given_records: list[PatientRecord], batch_size: int, repeats: int
) -> None:
    batches = plan_batches(cases_of(given_records, repeats), batch_size)
    for batch in batches:
        assert len({case.sample_index for case in batch}) == 1
        groups = {case.record.group for case in batch}
        assert len(batch) <= batch_size or (len(groups) == 1 and groups != {""})
    homes: dict[tuple[str, int], set[int]] = {}
    for number, batch in enumerate(batches):
        for case in batch:
            if case.record.group:
                homes.setdefault((case.record.group, case.sample_index), set()).add(number)
    assert all(len(numbers) == 1 for numbers in homes.values())


@given(st.lists(st.sampled_from("pq"), min_size=1, max_size=20), st.integers(1, 9))
def test_contexts_never_mix(contexts: list[str], batch_size: int) -> None:
    given_records = [PatientRecord({"x": i}, 0, context=c) for i, c in enumerate(contexts)]
    for batch in plan_batches(cases_of(given_records), batch_size):
        assert len({case.record.context for case in batch}) == 1


def test_without_groups_batches_are_consecutive_and_full() -> None:
    given_records = [PatientRecord({"x": i}, 0) for i in range(10)]
    batches = plan_batches(cases_of(given_records), 4)
    assert [[case.position for case in batch] for batch in batches] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
