"""Run as a script: holds the write lock of a SQLite file. Prints LOCKED, lets go at a line of input, and prints FREE."""

from __future__ import annotations

import os
import sqlite3
import sys


def main(path: str) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    os.write(1, b"LOCKED\n")
    sys.stdin.readline()
    database.execute("ROLLBACK")
    database.close()
    os.write(1, b"FREE\n")
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
