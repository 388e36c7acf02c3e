"""Output on any stream: in its encoding, with nothing that steers a terminal."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterable

import typer

from krisis.display import HIDDEN
from krisis.terminal_edge import guard_streams, unescaped

# What is written in place of a sign that a stream cannot show; of other letters the accent is lost.
_STAND_INS = {
    **dict.fromkeys("–—−─━╌╴╶·", "-"),
    **dict.fromkeys("│┃║", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯", "+"),
    **dict.fromkeys("█▇▆▅▄▃▂▁▏▎▍▌▋▊▉", "#"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’‚", "'"),
    "→": "->",
    "←": "<-",
    "…": "...",
    "≥": ">=",
    "≤": "<=",
    "±": "+/-",
    "×": "x",
    "•": "*",
    "µ": "u",
    "μ": "u",
    "°": " deg",
    "≈": "~",
    "✓": "ok",
    "✗": "no",
    "∞": "inf",
}
_ERRORS, _ASCII = "krisis-stand-in", "krisis-ascii"


def prepare_streams() -> None:
    """Let no stream fail on a sign that it cannot show, and no text steer a terminal."""
    codecs.register_error(_ERRORS, _stand_in)
    codecs.register(_plain_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)
            # Under its own name, click would take ASCII for a mistake and write UTF-8.
            if codecs.lookup(stream.encoding).name == "ascii":
                stream.reconfigure(encoding=_ASCII, errors=_ERRORS)
    guard_streams()


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(sign) or _bare(sign) for sign in signs), error.end


def _bare(sign: str) -> str:
    return unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode() or "?"


def _plain_ascii(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != _ASCII:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        name=_ASCII,
        encode=known.encode,
        decode=known.decode,
        incrementalencoder=known.incrementalencoder,
        incrementaldecoder=known.incrementaldecoder,
        streamwriter=known.streamwriter,
        streamreader=known.streamreader,
    )


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines; a break within one, as in a name, is a space."""
    typer.echo("\n".join(" ".join(one.splitlines()) for one in lines))


def echo_error(text: str) -> None:
    """Print an error; lines after the first are indented, so that none passes for another error."""
    typer.echo("krisis: " + re.sub(r"[\n\r]+(?=\S)", "\n  ", text), err=True)


def echo_styled(text: str) -> None:
    """Print text with colours of our own, whose words were escaped before they had any."""
    typer.echo(text, file=unescaped(sys.stdout))


def echo_data(text: str) -> None:
    """Print a table for programs: as it is to a file or pipe, escaped on a terminal."""
    out = sys.stdout if sys.stdout.isatty() else unescaped(sys.stdout)
    out.write(f"{text}\n")  # not by click, which drops what looks like a colour


def echo_json(text: str) -> None:
    """Print JSON; hidden characters, and letters that a stream lacks, are JSON escapes."""
    is_utf = (sys.stdout.encoding or "").lower().startswith("utf")
    pattern = HIDDEN if is_utf else re.compile(r"[^\n\x20-\x7e]+")
    typer.echo(pattern.sub(lambda match: json.dumps(match[0])[1:-1], text))
