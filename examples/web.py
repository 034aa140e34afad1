"""A web service beside its queue: FastAPI takes orders over HTTP, and one process works them off, by the `faststream_fastapi` plugin.

POST /orders    puts an order into the queue and answers at once
GET /orders     what was packed
GET /health     204 while the queue is worked on, 503 otherwise
GET /asyncapi   the queue's documents

    pip install 'faststream-sql[sqlite]' faststream-fastapi uvicorn
    uvicorn examples.web:app

Handlers take FastAPI's own `Depends`, as routes do. The table is a file, `orders.db` in the working folder, or the URL in `ORDERS_URL`.
"""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import Depends, FastAPI, Response
from faststream_fastapi import FastStreamAPI
from pydantic import BaseModel

from faststream_sql import SQLBroker, SQLMessage


class Order(BaseModel):
    item: str
    pieces: int = 1


class Warehouse:
    """What both sides work with."""

    def __init__(self) -> None:
        self.packed: list[str] = []

    def pack(self, order: Order, attempt: int | None) -> None:
        if order.item == "glass" and attempt == 1:
            msg = "broken on the way: another one, please"
            raise RuntimeError(msg)
        self.packed.append(f"{order.pieces} x {order.item}")


house = Warehouse()


def warehouse() -> Warehouse:
    return house


House = Annotated[Warehouse, Depends(warehouse)]

broker = SQLBroker(os.environ.get("ORDERS_URL", "sqlite:///orders.db"), label="orders")


async def message() -> SQLMessage:
    """The message in work, for handlers and their dependencies. (The `Context` of faststream_fastapi 1.4.0 does not find it.)"""
    found: SQLMessage = broker.context.resolve("message")
    return found


Message = Annotated[SQLMessage, Depends(message)]


@broker.subscriber("orders", max_workers=4, max_attempts=5, dead_letter="orders.dead", backoff=0.1)
async def pack(order: Order, house: House, message: Message) -> None:
    """Packs an order."""
    house.pack(order, message.attempt)


service = FastAPI(title="Orders")


@service.post("/orders", status_code=202)
async def take(order: Order) -> dict[str, int]:
    return {"row": await broker.publish(order, "orders")}


@service.get("/orders")
async def packed(house: House) -> list[str]:
    return house.packed


@service.get("/health")
async def health() -> Response:
    return Response(status_code=204 if await broker.ping(timeout=5) else 503)


async def start(broker: SQLBroker) -> None:
    """The table is made here for the quickstart; a service in earnest has migrations. An error stops the service."""
    await broker.create_tables()
    await broker.start()


# subscribers stand above this line; `safe_connection` stops the service where the queue cannot be worked on
app = FastStreamAPI(broker, application=service, asyncapi_path="/asyncapi", connection_hook=start, safe_connection=True)
