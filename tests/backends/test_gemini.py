from __future__ import annotations

import math

import pytest

from krisis.backends.gemini import _reply


def test_text_thoughts_usage_and_log_probabilities_are_read() -> None:
    half = math.log(0.5)
    reply = _reply(
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": "hm", "thought": True}, {"text": "3"}]},
                    "finishReason": "STOP",
                    "logprobsResult": {
                        "chosenCandidates": [{"token": "3", "logProbability": half}],
                        "topCandidates": [
                            {
                                "candidates": [
                                    {"token": "3", "logProbability": half},
                                    {"token": "4", "logProbability": half},
                                ]
                            }
                        ],
                    },
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 7,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 30,
                "cachedContentTokenCount": 4,
            },
            "modelVersion": "gemini-x-001",
        },
        {},
    )
    assert (reply.text, reply.finish_reason, reply.model) == ("3", "stop", "gemini-x-001")
    assert (reply.input_tokens, reply.output_tokens) == (7, 32)
    assert (reply.cached_tokens, reply.reasoning_tokens) == (4, 30)
    assert reply.logprobs[0].logprob == half
    assert reply.logprobs[0].top == (("3", half), ("4", half))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "content_filter"),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "safety"),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, "max_tokens"),
        ({}, ""),
    ],
)
def test_an_answer_that_is_missing_says_why(members: dict[str, object], reason: str) -> None:
    reply = _reply(members, {})
    assert (reply.text, reply.finish_reason, reply.logprobs) == ("", reason, ())
    assert reply.output_tokens is None
