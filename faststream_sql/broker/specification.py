"""What AsyncAPI says of queues: their tables, groups, forms and limits, built from the code without a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from faststream_sql.broker._faststream import (
    Message,
    Operation,
    PublisherSpec,
    PublisherSpecification,
    PublisherSpecificationConfig,
    SubscriberSpec,
    SubscriberSpecification,
    SubscriberSpecificationConfig,
    resolve_payloads,
)
from faststream_sql.broker.config import SQLBrokerConfig
from faststream_sql.broker.routes import Routes
from faststream_sql.engine import SubscriptionOptions
from faststream_sql.errors import NoRouteError
from faststream_sql.table import QueueTable

if TYPE_CHECKING:
    from faststream_sql.broker._faststream import CallsCollection

_FORMS = {
    "row_lock": "a row lock, in a transaction that stays open while its handler runs",
    "lease": "a lease, renewed while its handler runs",
    "advisory": "an advisory lock on its key",
}


@dataclass(kw_only=True)
class SQLSubscriberSpecificationConfig(SubscriberSpecificationConfig):
    queue: str
    table: QueueTable | None
    options: SubscriptionOptions


@dataclass(kw_only=True)
class SQLPublisherSpecificationConfig(PublisherSpecificationConfig):
    queue: str
    table: QueueTable | None


class SQLSubscriberSpecification(SubscriberSpecification[SQLBrokerConfig, SQLSubscriberSpecificationConfig]):
    """One subscription in the document."""

    def __init__(
        self, outer_config: SQLBrokerConfig, specification_config: SQLSubscriberSpecificationConfig, calls: CallsCollection[Any]
    ) -> None:
        super().__init__(outer_config, specification_config, calls)

    @property
    def queue(self) -> str:
        """The queue's name, with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self.config.queue}"

    @property
    @override
    def channel_labels(self) -> list[str]:
        return [self.queue]

    @override
    def get_schema(self) -> dict[str, SubscriberSpec]:
        told = [self.description]
        if self._outer_config.says_where or self.config.table is not None or self.config.options != SubscriptionOptions():
            told.append(_about(self.queue, self.config.table, self._outer_config.routes))
            told.append(_limits(self.config.options, self._outer_config.prefix))
        return {
            self.name: SubscriberSpec(
                address=self.queue,
                description=" ".join(filter(None, told)) or None,
                operation=Operation(
                    message=Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads())),
                    bindings=None,
                ),
                bindings=None,
            ),
        }


class SQLPublisherSpecification(PublisherSpecification[SQLBrokerConfig, SQLPublisherSpecificationConfig]):
    """One publisher in the document."""

    @property
    def queue(self) -> str:
        """The queue's name, with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self.config.queue}"

    @property
    @override
    def name(self) -> str:
        return self.config.title_ or f"{self.queue}:Publisher"

    @override
    def get_schema(self) -> dict[str, PublisherSpec]:
        told = [self.config.description_]
        if self._outer_config.says_where or self.config.table is not None:
            told.append(_about(self.queue, self.config.table, self._outer_config.routes))
        return {
            self.name: PublisherSpec(
                address=self.queue,
                description=" ".join(filter(None, told)) or None,
                operation=Operation(
                    message=Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads(), "Publisher")),
                    bindings=None,
                ),
                bindings=None,
            ),
        }


def _about(queue: str, table: QueueTable | None, routes: Routes) -> str:
    """Where the rows are and how one in work is held."""
    try:
        found = table or routes.resolve(queue)
    except NoRouteError:
        return "The queue leads into no table yet."
    which = f"rows of table {found.qualified_name!r}"
    if found.group is not None:
        which += f" whose {found.group.name!r} is {queue!r}"
    fifo = " One row of the group is in work at a time, in order." if found.fifo else ""
    return f"The queue is the {which}. A row in work is held by {_FORMS[found.form]}.{fifo}"


def _limits(options: SubscriptionOptions, prefix: str) -> str:
    workers = f"At most {options.max_workers} run at once in a process."
    if options.max_attempts is None or options.dead_letter is None:
        return workers
    dead = options.dead_letter
    where = f"{prefix}{dead}" if isinstance(dead, str) else dead.qualified_name
    return f"{workers} A row that fails {options.max_attempts} times moves to {where!r}."
