"""Agreement of repeated samples, by hand."""

from __future__ import annotations

import pytest

from krisis.errors import UserError
from krisis.statistics.repeatability import consistency_of


@pytest.mark.parametrize(
    ("samples", "mode", "share", "spread"),
    [
        ([2], 2, 1.0, 0.0),
        ([2, 2, 3], 2, 2 / 3, (2 / 9) ** 0.5),
        ([3, 1], 1, 0.5, 1.0),
        ([3, None], None, 0.5, 0.0),
        ([None, None], None, 1.0, None),
        ([0, 3, 3, None, None], None, 0.4, 2**0.5),
    ],
)
def test_mode_share_and_spread(samples, mode, share, spread):
    found = consistency_of(samples)
    assert (found.mode, found.modal_confidence) == (mode, share)
    assert found.score_std == (None if spread is None else pytest.approx(spread))


def test_no_samples_are_refused():
    with pytest.raises(UserError, match="at least one sample"):
        consistency_of([])
