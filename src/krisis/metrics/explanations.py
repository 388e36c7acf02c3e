"""What the names of interval methods and the reasons of missing figures mean, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from krisis.metrics.base import MetricScore

# Name of a method, as results store it, to what it is; docs/intervals.md has the rest.
METHODS: Mapping[str, str] = {
    "mid_p": "mid-P limits of a share (the binomial test inverted)",
    "clustered_mid_p": "mid-P limits of a share, for rows that come from the same patients",
    "ranked_mid_p": "mid-P limits of a ranking, for as many rows as its patients are worth",
    "clopper_pearson": "exact limits of a share (Clopper and Pearson)",
    "mover": "limits of several shares combined (MOVER, Zou and Donner)",
    "patient_bootstrap": "patient bootstrap that allows for errors not yet observed",
    "test_inversion": "every value that a test of calibration does not reject",
    "profile_likelihood": "profile likelihood, allowing for rows of the same patients",
    "permutation_t": "studentised permutation of patients, inverted",
    "percentile": "percentiles of the resampled patients",
    "expanded_percentile": "percentiles of the resampled patients, widened for few patients",
    "student": "Student's interval of the means of patients",
    "unpaired": "the intervals of two runs combined as if they had no case in common",
    "whole_range": "every possible value: the data exclude none",
}

# Why a figure or its interval is missing, as results store it, to what that means.
REASONS: Mapping[str, str] = {
    "no_rows": "there are no rows",
    "no_scored_rows": "no row could be scored",
    "no_answered_rows": "nothing was answered",
    "no_predicted_items": "nothing was answered",
    "no_non_abstained_predictions": "nothing was answered",
    "no_participants": "there are no patients",
    "no_rows_with_confidence": "no answer states a confidence",
    "answered_rows_without_confidence": "some answers state no confidence, so none can be ranked",
    "no_should_abstain_metadata": "the data do not say which cases are to be deferred",
    "every_case_is_to_be_deferred": "no case may be answered, all are to be deferred",
    "no_case_is_to_be_deferred": "no case is to be deferred",
    "the_task_has_no_price_of_deferring": "the task states no price of deferring",
    "the_best_constant_policy_is_nearly_ideal": "the best constant policy costs hardly more than "
    "the ideal reader, so no skill can show",
    "coverage_is_never_reached": "fewer cases were answered than this share",
    "labels_have_no_order": "the answers have no order",
    "it_describes_this_run_alone": "it describes how this run went, and no patients",
    "non_binary_labels_or_predictions": "the answers are more than two",
    "no_answer_with_a_place_on_the_scale": "no answer has a place on the scale",
    "task_names_no_positive_answer": "the task names no positive answer; set `positive`",
    "the_task_has_no_positive_answer": "the task names no positive answer; set `positive`",
    "task_has_not_two_answers_with_a_positive_one": "it needs two answers, one of them positive",
    "no_case_has_the_positive_answer": "nobody has the disease",
    "every_case_has_the_positive_answer": "everybody has the disease",
    "every_such_case_was_abstained_from": "no case of this kind was answered",
    "the_positive_answer_was_never_given": "the positive answer was never given",
    "only_the_positive_answer_was_given": "only the positive answer was given",
    "no_answered_case_is_or_is_called_positive": "no answered case is or is called positive",
    "only_one_side_has_answers_with_a_confidence": "there is no pair of both kinds to rank",
    "needs_at_least_two_classes_in_ground_truth": "all cases have the same right answer",
    "all_outcomes_are_equal": "every answer is right, or every answer is wrong",
    "all_probabilities_are_equal": "all stated probabilities are the same",
    "probability_separates_the_outcomes": "one probability separates right from wrong answers",
    "no_outcome_is_expected": "all stated probabilities are 0",
    "needs_at_least_10_rows": "fewer than 10 rows",
    "needs_at_least_10_totals": "fewer than 10 totals",
    "task_has_no_total": "the items of this task do not add up to a total",
    "no_patient_with_all_items": "no patient has all items",
    "no_patient_with_enough_answers": "no patient has enough answers for a total",
    "all_totals_are_equal": "all totals are the same",
    "no_true_total_reaches_the_cut_off": "no true total reaches the cut-off",
    "every_true_total_reaches_the_cut_off": "every true total reaches the cut-off",
    "nobody_on_this_side_is_decided": "nobody on this side of the cut-off has a total",
    "the_ratio_is_infinite": "it divides by a share of 0",
    "the_ratio_is_0_and_has_no_logarithm": "the ratio is 0",
    "the_upper_limit_is_infinite": "its upper limit is infinite",
    "the_figure_is_undefined": "the figure itself is undefined",
    "the_limits_cannot_be_computed": "its limits cannot be computed",
    "reported_as_a_point": "it is reported as a point; the expected calibration error has an "
    "interval",
    "this_figure_is_not_resampled": "this figure is not resampled",
    "no_resamples_wanted": "no resamples were wanted",
    "needs_at_least_two_clusters": "fewer than two patients",
    "needs_at_least_two_patients": "fewer than two patients",
    "fewer_than_two_valid_resamples": "hardly any resample has a value",
    "every_resample_gives_the_same_value": "every resample gives the same value",
    "a_side_has_no_interval": "one of the two sides has no interval",
    "a_stratum_has_no_rows": "one of the groups has no rows",
    "one_patient": "there is one patient only",
    "not_asked": "it was not asked for",
}


def reason_words(reason: str) -> str:
    """Return a reason in words; a sentence that is no code stays as it is.

    >>> reason_words("coverage_is_never_reached"), reason_words("it was not measured")
    ('fewer cases were answered than this share', 'it was not measured')
    """
    return REASONS.get(reason) or (reason if " " in reason else reason.replace("_", " "))


def explained(reason: str) -> str:
    """Return a reason by its code, under which docs and programs know it, with what it means.

    >>> explained("no_rows"), explained("it was not measured")
    ('no_rows (there are no rows)', 'it was not measured')
    """
    return f"{reason} ({REASONS[reason]})" if reason in REASONS else reason


def method_lines(methods: Iterable[str]) -> list[str]:
    """Say what every method is, each once, in the order of first use.

    >>> method_lines(["percentile", "percentile", "my_own"])
    ['percentile: percentiles of the resampled patients']
    """
    return [f"{name}: {METHODS[name]}" for name in dict.fromkeys(methods) if name in METHODS]


def methods_of(scores: Iterable[MetricScore]) -> list[str]:
    """Return the methods of the intervals that scores have."""
    return [one.interval.method for one in scores if one.interval and one.interval.defined]
