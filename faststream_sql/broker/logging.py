"""The broker's log: FastStream's access log with the queue's name in it."""

from __future__ import annotations

import logging
from typing import Any

from typing_extensions import override

from faststream_sql.broker._faststream import (
    ContextRepo,
    DefaultLoggerStorage,
    LoggerProto,
    LoggerState,
    get_broker_logger,
    make_logger_state,
)

MESSAGE_ID_WIDTH = 10


class SQLParamsStorage(DefaultLoggerStorage):
    """Makes the logger once, as wide as the longest queue's name."""

    def __init__(self) -> None:
        super().__init__()
        self._width = 5
        self.logger_log_level = logging.INFO

    @override
    def set_level(self, level: int) -> None:
        self.logger_log_level = level

    @override
    def register_subscriber(self, params: dict[str, Any]) -> None:
        self._width = max(self._width, len(params.get("queue", "")))

    @override
    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        if not (logger := self._get_logger_ref()):
            logger = get_broker_logger(
                name="sql",
                default_context={"queue": ""},
                message_id_ln=MESSAGE_ID_WIDTH,
                fmt=f"%(asctime)s %(levelname)-8s - %(queue)-{self._width}s | %(message_id)-{MESSAGE_ID_WIDTH}s - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(logger)
        return logger


def make_sql_logger_state(logger: LoggerProto | None, log_level: int) -> LoggerState:
    """The logger's state, as the broker's arguments ask for it."""
    return make_logger_state(logger=logger, log_level=log_level, default_storage_cls=SQLParamsStorage)
