"""Run as a script beside a test server: ends the server and removes its folder when whoever started it is gone.

It reads a line for each change of the server's process, its pid or 0 for none, until the pipe closes.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys

import psutil


def main(folder: str) -> None:
    pid = 0
    for line in sys.stdin:
        pid = int(line)
    if pid:
        end(pid)
    shutil.rmtree(folder, ignore_errors=True)


def end(pid: int) -> None:
    try:
        first = psutil.Process(pid)
        family = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    # SIGQUIT lets Postgres take its children along and end at once; SIGKILL is for what is left of it.
    for number in (signal.SIGQUIT, signal.SIGKILL):
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        _, family = psutil.wait_procs(family, timeout=5)


if __name__ == "__main__":
    main(sys.argv[1])
