"""Text for LaTeX in plain ASCII, so that pdflatex sets every sign whatever its packages."""

from __future__ import annotations

import unicodedata

from krisis.display import spelled_out

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\`{}",
    "'": "{'}",
    '"': r"\char34{}",
    # In front of a line a bracket or a star would be taken for an argument of the line before.
    **{sign: f"{{{sign}}}" for sign in "[]*-"},
    **{sign: f"\\{sign}" for sign in "_%&#${}"},
    "\u00a0": "~",
    "\u2013": "{--}",
    "\u2014": "{---}",
    "\u2212": "$-$",
    "\u2026": r"\ldots{}",
    "\u2018": "{`}",
    "\u2019": "{'}",
    "\u201c": "{``}",
    "\u201d": "{''}",
    "\u00b7": r"$\cdot$",
    "\u2022": r"\textbullet{}",
    "\u00d7": r"$\times$",
    "\u00b1": r"$\pm$",
    "\u2248": r"$\approx$",
    "\u2260": r"$\neq$",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u221e": r"$\infty$",
    "\u2192": r"$\rightarrow$",
    "\u2190": r"$\leftarrow$",
    "\u2191": r"$\uparrow$",
    "\u2193": r"$\downarrow$",
    "\u00b0": r"$^{\circ}$",
    "\u00b5": r"$\mu$",
    "\u03bc": r"$\mu$",
    "\u03b1": r"$\alpha$",
    "\u03b2": r"$\beta$",
    "\u03b3": r"$\gamma$",
    "\u03b4": r"$\delta$",
    "\u03ba": r"$\kappa$",
    "\u03c3": r"$\sigma$",
    "\u0394": r"$\Delta$",
    "\u00df": r"\ss{}",
    "\u00e6": r"\ae{}",
    "\u00c6": r"\AE{}",
    "\u00f8": r"\o{}",
    "\u00d8": r"\O{}",
    "\u0153": r"\oe{}",
    "\u0152": r"\OE{}",
    "\u0142": r"\l{}",
    "\u0141": r"\L{}",
    **{sign: f"$^{{{digit}}}$" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{sign: f"$_{{{digit}}}$" for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}
# Combining sign → the accent of LaTeX that every encoding of fonts has.
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}


def latex_text(text: object) -> str:
    """Return text on one line in which no sign is a command; unknown signs are code points.

    >>> latex_text("50 % of a_b"), latex_text("m² ≥ 3"), latex_text("café")
    ('50 \\\\% of a\\\\_b', 'm$^{2}$ $\\\\geq$ 3', "caf\\\\'{e}")
    """
    line = " ".join(spelled_out(str(text)).split())
    return "".join(_sign(sign) for sign in unicodedata.normalize("NFC", line))


def _sign(sign: str) -> str:
    known = _SIGNS.get(sign)
    if known is not None:
        return known
    if " " <= sign <= "~":
        return sign
    parts = unicodedata.normalize("NFD", sign)
    letter, mark = parts[0], parts[1:]
    if letter.isascii() and letter.isalpha() and mark in _ACCENTS:
        base = {"i": r"\i", "j": r"\j"}.get(letter, letter)
        return f"\\{_ACCENTS[mark]}{{{base}}}"
    return f"{{[}}U+{ord(sign):04X}{{]}}"
