"""The published options of the scripts, as the options of the commands that they call."""

from __future__ import annotations

RENAMED = {"--method": "--calibrator", "--features": "--signals"}


def translated(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the inputs, and all other words with the names that `krisis` has for them.

    Example:
        >>> translated(["--input", "run.json", "--mode", "few_shot", "--method=logistic"])
        (['run.json'], ['--mode', 'few_shot', '--calibrator', 'logistic'])
    """
    inputs, others, is_input = [], [], False
    for word in words:
        name, equals, value = word.partition("=")
        if is_input or (name == "--input" and equals):
            inputs.append(word if is_input else value)
            is_input = False
        elif word == "--input":
            is_input = True
        elif name in RENAMED:
            others += [RENAMED[name], value] if equals else [RENAMED[name]]
        else:
            others.append(word)
    return inputs, others
