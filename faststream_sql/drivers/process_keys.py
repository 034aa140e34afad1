"""Lock keys that a process holds on an SQLite file, where no server could hold them.

All pools of a process on one file share one set, and a lock of the operating system on a file beside it keeps a second process out: the
kernel lets it go when the process ends, however it ends.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, ClassVar

from typing_extensions import Self

from faststream_sql.errors import DeclarationError


class ProcessKeys:
    """The keys of one file, for as long as a pool of this process uses them."""

    _by_file: ClassVar[dict[str, ProcessKeys]] = {}

    def __init__(self, lock: IO[bytes] | None) -> None:
        self.keys: set[object] = set()
        self._lock = lock
        self._users: set[int] = set()

    @classmethod
    def of(cls, path: str | None, user: object) -> ProcessKeys:
        """The keys of a file (None: of a database in memory, which is the user's alone).

        Raises DeclarationError where another process has the file's.
        """
        if path is None:
            return cls(None)
        where = str(Path(path).resolve())
        found = cls._by_file.get(where)
        if found is None:
            found = cls._by_file[where] = cls(_lock_beside(where))
        found._users.add(id(user))
        return found

    def leave(self, user: object) -> Self:
        """A pool needs the keys no more; the last one lets other processes have the file's."""
        self._users.discard(id(user))
        if not self._users and self._lock is not None:
            self._lock.close()
            self._lock = None
            for where, keys in list(self._by_file.items()):
                if keys is self:
                    del self._by_file[where]
        return self


def _lock_beside(where: str) -> IO[bytes]:
    """Open and lock `<file>.process`. It is left there: a file that two processes delete and make anew protects nothing."""
    lock = Path(f"{where}.process").open("ab")  # noqa: SIM115 - it stays open as long as the keys are held
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        name = Path(where).name
        msg = (
            f"another process has the advisory locks of {name!r}: on SQLite they are held in the process, so one process serves a file. "
            "Stop the other one, or use the lease form (a LockedUntil column)"
        )
        raise DeclarationError(msg) from None
    return lock
