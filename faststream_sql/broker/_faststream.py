"""FastStream's private parts, imported here and nowhere else.

Tested with FastStream 0.7.8; its internals move between releases, so another one is refused at import and not half-way through a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faststream.__about__ import __version__ as faststream_version
from faststream._internal._compat import json_loads
from faststream._internal.basic_types import LoggerProto, SendableMessage
from faststream._internal.broker import BrokerUsecase
from faststream._internal.broker.registrator import Registrator
from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.configs import (
    BrokerConfig,
    PublisherSpecificationConfig,
    PublisherUsecaseConfig,
    SubscriberSpecificationConfig,
    SubscriberUsecaseConfig,
    UnderlyingDriverAnnotation,
    UnderlyingDriverAnnotations,
)
from faststream._internal.constants import EMPTY
from faststream._internal.context.context_type import Context
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.endpoint.publisher import PublisherProto, PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.endpoint.utils import ParserComposition, process_msg
from faststream._internal.logger import DefaultLoggerStorage, LoggerState, make_logger_state
from faststream._internal.logger.logging import get_broker_logger
from faststream._internal.parser import CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream._internal.types import AsyncCallable, BrokerMiddleware, CustomCallable, IdGenerator, PublisherMiddleware
from faststream.response import ensure_response
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import BrokerSpec, Message, Operation, PublisherSpec, SubscriberSpec
from faststream.specification.schema.extra import Tag, TagDict

if TYPE_CHECKING:
    from faststream._internal.testing.broker import TestBroker, find_test_broker, patch_broker_calls

_TESTED = ((0, 7, 8), (0, 8))


def serializer_of(config: Any) -> Any:
    """FastDepends' serializer, as the application has set it by now."""
    return config.fd_config._serializer


def __getattr__(name: str) -> Any:
    """FastStream's testing parts bring `unittest.mock` along, which a service does without: imported when they are asked for."""
    if name in {"TestBroker", "find_test_broker", "patch_broker_calls"}:
        from faststream._internal.testing import broker

        return getattr(broker, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def _check_version(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if not _TESTED[0] <= numbers < _TESTED[1]:
        msg = f"faststream_sql works with faststream >=0.7.8,<0.8, and {version} is installed: pip install 'faststream>=0.7.8,<0.8'"
        raise ImportError(msg)


_check_version(faststream_version)

__all__ = (
    "EMPTY",
    "ArgsContainer",
    "AsyncCallable",
    "BrokerConfig",
    "BrokerMiddleware",
    "BrokerRouter",
    "BrokerSpec",
    "BrokerUsecase",
    "CallsCollection",
    "CodecProto",
    "Context",
    "ContextRepo",
    "CustomCallable",
    "DefaultCodec",
    "DefaultLoggerStorage",
    "FakePublisher",
    "FastDependsConfig",
    "IdGenerator",
    "LoggerProto",
    "LoggerState",
    "Message",
    "Operation",
    "ParserComposition",
    "ProducerProto",
    "PublisherMiddleware",
    "PublisherProto",
    "PublisherSpec",
    "PublisherSpecification",
    "PublisherSpecificationConfig",
    "PublisherUsecase",
    "PublisherUsecaseConfig",
    "Registrator",
    "SendableMessage",
    "SubscriberRoute",
    "SubscriberSpec",
    "SubscriberSpecification",
    "SubscriberSpecificationConfig",
    "SubscriberUsecase",
    "SubscriberUsecaseConfig",
    "Tag",
    "TagDict",
    "TestBroker",
    "UnderlyingDriverAnnotation",
    "UnderlyingDriverAnnotations",
    "ensure_response",
    "find_test_broker",
    "get_broker_logger",
    "json_loads",
    "make_logger_state",
    "patch_broker_calls",
    "process_msg",
    "resolve_payloads",
    "serializer_of",
)
