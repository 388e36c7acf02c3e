"""Output in any encoding: a sign that a stream cannot show is written in ASCII."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterable

import typer

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
    """Let no stream fail on a sign that it cannot show, whatever its encoding."""
    codecs.register_error(_ERRORS, _stand_in)
    codecs.register(_plain_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)
            # Under its own name, click would take ASCII for a mistake and write UTF-8.
            if codecs.lookup(stream.encoding).name == "ascii":
                stream.reconfigure(encoding=_ASCII, errors=_ERRORS)


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
    """Print lines; a break or another sign of control within one, as in a name, is a space."""
    typer.echo("\n".join("".join(c if c.isprintable() else " " for c in one) for one in lines))


def echo_json(text: str) -> None:
    """Print JSON; on a stream that is not UTF-8, other letters are written as JSON escapes."""
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        text = re.sub(r"[^\x00-\x7f]+", lambda match: json.dumps(match[0])[1:-1], text)
    typer.echo(text)
