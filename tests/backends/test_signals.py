from __future__ import annotations

import math

import pytest

from krisis.backends.signals import TokenLogprob, token_signals

HALF, QUARTER = math.log(0.5), math.log(0.25)


def spell(*tokens: str, logprob: float = HALF, top: tuple[float, ...] = ()) -> list[TokenLogprob]:
    listed = tuple((f"t{i}", value) for i, value in enumerate(top))
    return [TokenLogprob(token, logprob, listed) for token in tokens]


def test_figures_of_the_answer_tokens_by_hand() -> None:
    text = '{"prediction": 12}'
    tokens = [
        *spell('{"', "prediction", '":'),
        *spell(" 1", logprob=HALF, top=(HALF, QUARTER)),
        *spell("2", logprob=QUARTER, top=(QUARTER, QUARTER)),
        *spell("}", "<|end|>"),
    ]
    signals = token_signals(text, tokens, (15, 17))
    assert signals["token_msp"] == pytest.approx((0.5 + 0.25) / 2)
    two_thirds = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert signals["token_pe"] == pytest.approx((two_thirds + math.log(2)) / 2)
    assert signals["token_energy"] == pytest.approx((math.log(0.75) + math.log(0.5)) / 2)


def test_without_lists_only_the_probability_is_given() -> None:
    assert token_signals("3", spell("3"), (0, 1)) == {"token_msp": 0.5}


@pytest.mark.parametrize(
    ("tokens", "span"),
    [([], (0, 1)), (spell("4"), (0, 1)), (spell("3"), None)],
)
def test_figures_are_absent_rather_than_invented(
    tokens: list[TokenLogprob], span: tuple[int, int] | None
) -> None:
    assert token_signals("3", tokens, span) == {}


def test_alternatives_of_no_probability_do_not_harm() -> None:
    signals = token_signals("3", spell("3", logprob=0.0, top=(0.0, -math.inf)), (0, 1))
    assert signals == {"token_msp": 1.0, "token_pe": 0.0, "token_energy": 0.0}
