"""Which broker a command is about: `module:broker`, or `module:app` of a FastStream application with one."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.cli.output import CommandError
from faststream_sql.drivers.redaction import MASK, Redactor
from faststream_sql.drivers.url import parse_url
from faststream_sql.errors import DeclarationError, SQLBrokerError

URL_VARIABLE = "DATABASE_URL"
_URL = re.compile(r"\b[A-Za-z][\w+.-]*://\S*")
"""What may be a URL, in a text that somebody else wrote."""


def load_broker(target: str, *, factory: bool, folder: Path) -> SQLBroker:
    """Import the broker. Raises CommandError, with the way out, where there is none or several."""
    module_name, colon, path = target.partition(":")
    if not module_name or not colon or not path:
        msg = f"{target!r} names no broker: write module:broker, or module:app"
        raise CommandError(msg)
    found = _attribute(_module(module_name, folder), module_name, path)
    if factory:
        found = _called(found, target)
    return _broker_of(found, target)


def _module(name: str, folder: Path) -> Any:
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            msg = f"there is no module {name!r} in {place} or among what is installed: name another, or its folder with --app-dir"
            raise CommandError(msg) from error
        raise CommandError(failure(f"importing {name!r}", error)) from error
    except Exception as error:
        raise CommandError(failure(f"importing {name!r}", error)) from error


def _attribute(module: Any, module_name: str, path: str) -> Any:
    found = module
    for name in path.split("."):
        if not hasattr(found, name):
            instances = {key: value for key, value in vars(module).items() if not isinstance(value, type)}
            brokers = [key for key, value in instances.items() if isinstance(value, SQLBroker) or hasattr(value, "brokers")]
            there_are = f"; there are {', '.join(map(repr, brokers))}" if brokers else ""
            msg = f"module {module_name!r} has no {path!r}{there_are}"
            raise CommandError(msg)
        found = getattr(found, name)
    return found


def _called(factory: Any, target: str) -> Any:
    if not callable(factory):
        msg = f"{target!r} cannot be called: leave --factory out"
        raise CommandError(msg)
    try:
        return factory()
    except Exception as error:
        raise CommandError(failure(f"calling {target!r}", error)) from error


def _broker_of(found: Any, target: str) -> SQLBroker:
    if isinstance(found, SQLBroker):
        return found
    brokers = getattr(found, "brokers", None)
    if not isinstance(brokers, list):
        way_out = ": add --factory if it makes one" if callable(found) else ""
        msg = f"{target!r} is of the type {type(found).__name__}, and neither a SQLBroker nor an application with one{way_out}"
        raise CommandError(msg)
    ours = [broker for broker in brokers if isinstance(broker, SQLBroker)]
    if len(ours) != 1:
        which = "no SQLBroker" if not ours else f"{len(ours)} SQL brokers ({', '.join(broker.public_url for broker in ours)})"
        msg = f"the application {target!r} has {which}: name the broker itself, as in {target.partition(':')[0]}:broker"
        raise CommandError(msg)
    return ours[0]


def failure(doing: str, error: Exception) -> str:
    """What failed and where, without a line of the source or of the error that could hold a credential."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename and frame.filename != __file__
    ]
    where = "".join(f"\n  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    return f"{doing} failed: {clean_error(error)}{where}"


def clean_error(error: BaseException) -> str:
    """The error in words that hold no credential: the package's own as it is, and somebody else's without what may be a URL."""
    if isinstance(error, SQLBrokerError):
        return f"{type(error).__name__}: {error}"
    text = f"{type(error).__name__}: {error}"
    for redactor in _redactors():
        text = redactor.clean(text)
    return _URL.sub(lambda found: found[0].partition("://")[0] + f"://{MASK}", text)


def _redactors() -> Iterator[Redactor]:
    url, password = os.environ.get(URL_VARIABLE), os.environ.get("PGPASSWORD")
    if url:
        try:
            yield parse_url(url).redactor()
        except DeclarationError:
            yield Redactor([url])
    if password:
        yield Redactor([password])
