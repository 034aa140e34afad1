"""What the metrics of FastStream's middleware say of a row."""

from __future__ import annotations

from faststream.message import StreamMessage
from faststream.prometheus import ConsumeAttrs, MetricsSettingsProvider

from faststream_sql.broker.response import SQLPublishCommand
from faststream_sql.engine import Delivery


class SQLMetricsSettingsProvider(MetricsSettingsProvider[Delivery, SQLPublishCommand]):
    """Names a message by its subscription, and a publish by its queue."""

    __slots__ = ("messaging_system",)

    def __init__(self) -> None:
        self.messaging_system = "sql"

    def get_consume_attrs_from_message(self, msg: StreamMessage[Delivery]) -> ConsumeAttrs:
        """One row: its subscription, and its size in bytes."""
        return {"destination_name": msg.raw_message.queue, "message_size": len(msg.body), "messages_count": 1}

    def get_publish_destination_name_from_cmd(self, cmd: SQLPublishCommand) -> str:
        """The queue's name."""
        return cmd.destination
