"""What an engine has done since it was made, in plain numbers: a form adds to them as it goes, and metrics read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from typing_extensions import assert_never

from faststream_sql.engine.outcome import Ack, DeadLetter, Nack, Outcome, Reject, Release
from faststream_sql.table.table import QueueTable


@dataclass(slots=True)
class QueueCounters:
    """Of one group of a table (or one table without groups). Each only grows. A settlement counts once it is committed."""

    claimed: int = 0
    """Rows taken into work."""
    acked: int = 0
    rejected: int = 0
    nacked: int = 0
    dead_lettered: int = 0
    released: int = 0
    """Rows given back unhandled, by a shutdown or by a claim that took one too many."""
    renewed: int = 0
    """Leases prolonged."""
    lost: int = 0
    """Rows found to be no longer their delivery's own."""
    unknown: int = 0
    """Settlements whose answer was lost: each row is settled or gone, and nobody knows which. They count among the settlements too."""

    def plus(self, other: QueueCounters) -> QueueCounters:
        """Both together, as a value of its own."""
        return QueueCounters(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def settled(self, outcome: Outcome) -> None:
        """Count a settlement by the outcome that took effect."""
        match outcome:
            case Ack():
                self.acked += 1
            case Reject():
                self.rejected += 1
            case Nack():
                self.nacked += 1
            case DeadLetter():
                self.dead_lettered += 1
            case Release():
                self.released += 1
            case _:
                assert_never(outcome)

    @property
    def settlements(self) -> Mapping[str, int]:
        """The settlements by outcome."""
        return {
            "ack": self.acked,
            "reject": self.rejected,
            "nack": self.nacked,
            "dead_letter": self.dead_lettered,
            "release": self.released,
        }


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of every queue that the engine reads."""

    _queues: dict[tuple[QueueTable, str | None], QueueCounters] = field(default_factory=dict)

    def of(self, table: QueueTable, group: str | None) -> QueueCounters:
        """Those of a group of a table, or (None) of a table without groups."""
        return self._queues.setdefault((table, group), QueueCounters())

    def __iter__(self) -> Iterator[tuple[QueueTable, str | None, QueueCounters]]:
        # a list made in one step: metrics are read in a thread of their exporter, while a subscription may add a queue
        return iter([(table, group, counters) for (table, group), counters in list(self._queues.items())])
