"""A handler's argument of a bare class: FastStream would take it for the message's body, and says at the start what was meant."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from faststream import Depends
from faststream.exceptions import SetupError

from faststream_sql import SQLBroker, SQLMessage, SQLRouter
from faststream_sql.annotations import SQLBroker as AnnotatedBroker
from faststream_sql.annotations import SQLMessage as AnnotatedMessage
from faststream_sql.testing import TestSQLBroker


class Driver: ...


@pytest.mark.parametrize("bare", [SQLMessage, SQLBroker])
@pytest.mark.parametrize("place", ["handler", "optional", "annotated", "dependency", "router"])
async def test_a_bare_class_names_the_import_to_use(bare: Any, place: str) -> None:
    hint = {"optional": bare | None, "annotated": Annotated[bare, "words"]}.get(place, bare)
    broker, router = SQLBroker(), SQLRouter()
    declared: Any = router if place == "router" else broker

    def dependency(found: hint) -> None: ...  # type: ignore[valid-type]

    if place == "dependency":

        @declared.subscriber("q", dependencies=[Depends(dependency)])
        async def behind() -> None: ...
    else:

        @declared.subscriber("q")
        async def handle(found: hint) -> None: ...  # type: ignore[valid-type]

    broker.include_router(router)
    with pytest.raises(SetupError, match=f"from faststream_sql.annotations import {bare.__name__}"):
        async with TestSQLBroker(broker):
            pass


async def test_annotations_are_taken_and_a_service_may_name_classes_of_its_own() -> None:
    broker = SQLBroker(underlying_driver_annotations={Driver: "Annotated[Driver, Context('driver')]"})

    @broker.subscriber("q")
    async def handle(message: AnnotatedMessage, broker: AnnotatedBroker) -> None: ...

    async with TestSQLBroker(broker) as br:
        await br.publish("", "q")

    @broker.subscriber("other")
    async def wrong(driver: Driver) -> None: ...

    with pytest.raises(SetupError, match="Driver"):
        async with TestSQLBroker(broker):
            pass
