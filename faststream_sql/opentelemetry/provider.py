"""What a span says of a row."""

from __future__ import annotations

from typing import Any

from faststream.message import StreamMessage
from faststream.opentelemetry import TelemetrySettingsProvider
from faststream.opentelemetry.consts import MESSAGING_DESTINATION_PUBLISH_NAME
from opentelemetry.semconv.trace import SpanAttributes

from faststream_sql.broker.response import SQLPublishCommand
from faststream_sql.engine import Delivery

ROW_ID = "messaging.sql.row_id"
"""The row's id, as text. It is an attribute of its own: a message id is a UUID to FastStream, and a row's id mostly an integer."""
ATTEMPT = "messaging.sql.attempt"


class SQLTelemetrySettingsProvider(TelemetrySettingsProvider[Delivery, SQLPublishCommand]):
    """Attributes by OpenTelemetry's conventions for messaging, and the row's id and attempt beside them."""

    __slots__ = ("messaging_system",)

    def __init__(self) -> None:
        self.messaging_system = "sql"

    def get_consume_attrs_from_message(self, msg: StreamMessage[Delivery]) -> dict[str, Any]:
        """The attributes of a span that handles a row."""
        delivery = msg.raw_message
        attributes = {
            SpanAttributes.MESSAGING_SYSTEM: self.messaging_system,
            SpanAttributes.MESSAGING_MESSAGE_ID: msg.correlation_id,
            SpanAttributes.MESSAGING_MESSAGE_CONVERSATION_ID: msg.correlation_id,
            SpanAttributes.MESSAGING_MESSAGE_PAYLOAD_SIZE_BYTES: len(msg.body),
            MESSAGING_DESTINATION_PUBLISH_NAME: delivery.queue,
            ROW_ID: str(delivery.row_id),
        }
        if delivery.attempt is not None:
            attributes[ATTEMPT] = delivery.attempt
        return attributes

    def get_consume_destination_name(self, msg: StreamMessage[Delivery]) -> str:
        """The subscription's name."""
        return msg.raw_message.queue

    def get_publish_attrs_from_cmd(self, cmd: SQLPublishCommand) -> dict[str, Any]:
        """The attributes of a span that publishes."""
        return {
            SpanAttributes.MESSAGING_SYSTEM: self.messaging_system,
            SpanAttributes.MESSAGING_DESTINATION_NAME: cmd.destination,
            SpanAttributes.MESSAGING_MESSAGE_CONVERSATION_ID: cmd.correlation_id,
        }

    def get_publish_destination_name(self, cmd: SQLPublishCommand) -> str:
        """The queue's name."""
        return cmd.destination
