"""Whether an idle session has something to read: nobody asked it anything, so its server has closed it, or says that it is about to."""

from __future__ import annotations

import select
from typing import Any


def has_unread(transport: Any) -> bool:
    """Whether bytes, or the end, wait at a session's socket. A look of a microsecond; what the loop has read already is not seen."""
    socket = None if transport is None else transport.get_extra_info("socket")
    number = -1 if socket is None else socket.fileno()
    if number < 0:
        return transport is None or transport.is_closing()
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([number], [], [], 0)[0])  # Windows
