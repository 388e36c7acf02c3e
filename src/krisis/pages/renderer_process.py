"""The program that draws charts, started by `krisis.pages.renderer` and fed through pipes.

The converter aborts the process that it runs in when a text displeases it. It is run as a file and
imports nothing of krisis, so that it starts at once.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys


def main() -> None:
    """Draw what comes in on standard input until that is closed, as by the end of its parent.

    A request is a line ``FORM SCALE SECONDS BYTES`` and the chart as JSON; a reply is a line
    ``drawn BYTES`` or ``refused BYTES`` and the drawing, or what the converter said.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that asked
    # Replies have a channel of their own: whatever a library prints goes nowhere.
    replies = os.fdopen(os.dup(1), "wb")
    nowhere = open(os.devnull, "wb")  # noqa: SIM115 - until the process ends
    os.dup2(nowhere.fileno(), 1)

    import vl_convert

    requests = sys.stdin.buffer
    while line := requests.readline(200):
        form, scale, seconds, size = line.decode().split()
        # Not as text: the converter's own reader of JSON rounds the last digit of a number.
        chart = json.loads(requests.read(int(size)))
        # Ends the process even while the converter holds it, and whether or not the parent lives.
        faulthandler.dump_traceback_later(float(seconds), exit=True, file=nowhere)
        try:
            if form == "svg":
                drawn = vl_convert.vegalite_to_svg(chart).encode()
            elif form == "png":
                drawn = vl_convert.vegalite_to_png(chart, scale=float(scale))
            else:
                drawn = vl_convert.vegalite_to_pdf(chart)
            status = "drawn"
        except ValueError as error:
            status, drawn = "refused", str(error).encode()
        faulthandler.cancel_dump_traceback_later()
        replies.write(f"{status} {len(drawn)}\n".encode() + drawn)
        replies.flush()


if __name__ == "__main__":
    main()
