"""The colours of every chart and page, with their meaning, for light and for dark surroundings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tone:
    """One colour as it is on a light and on a dark page; ``name`` is its CSS variable."""

    name: str
    light: str
    dark: str

    def __str__(self) -> str:
        return self.light


# Data colours follow Okabe and Ito, Color universal design (2008): they differ for every common
# kind of colour vision. No chart relies on them alone: each series is also named beside its mark.
TONES = (
    SURFACE := Tone("surface", "#fefefe", "#15191e"),
    RAISED := Tone("raised", "#f5f6f8", "#1d2329"),
    INK := Tone("ink", "#1a1f26", "#e7eaee"),
    MUTED := Tone("muted", "#58616c", "#a3adb8"),
    GRID := Tone("grid", "#dfe3e8", "#313942"),
    CORRECT := Tone("correct", "#0072b2", "#56b4e9"),
    WRONG := Tone("wrong", "#b94a00", "#f58a4b"),
    ABSTAINED := Tone("abstained", "#00805e", "#2fc79b"),
    NO_ANSWER := Tone("no-answer", "#8a6d00", "#d6b84a"),
    NOT_EVALUATED := Tone("not-evaluated", "#79828d", "#8b949f"),
    REFERENCE := Tone("reference", "#7d5aa6", "#c3a3e6"),
    LINK := Tone("link", "#0a5d94", "#7cc4f2"),
)


def css_variables() -> str:
    """Return the style rules that give each colour its value on light, dark and printed pages.

    A page may say by ``data-theme`` that its reader chose light or dark whatever the system says.
    """
    light = _declarations("light")
    dark = _declarations("dark")
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        ":root[data-theme=light]{color-scheme:light}\n"
        f"@media screen and (prefers-color-scheme:dark)"
        f"{{:root:not([data-theme=light]){{{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
    )


def _declarations(side: str) -> str:
    return "".join(f"--{tone.name}:{getattr(tone, side)};" for tone in TONES)


def with_variables(svg: str) -> str:
    """Let a drawing take its colours from the page that it is set into."""
    for tone in TONES:
        svg = svg.replace(f'"{tone.light}"', f'"var(--{tone.name},{tone.light})"')
    return svg
