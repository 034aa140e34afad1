"""The mailer on a database in a temporary folder: letters published, handled, retried and dead-lettered, in about twelve seconds."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from examples.mailer import demo

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(demo(f"sqlite:///{Path(folder) / 'mail.db'}"))
