"""A subscription: one name, read from one table, from its checks at start to its stop."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from faststream_sql.engine.clock import RESOLUTION_SECONDS, SystemClock
from faststream_sql.engine.counters import QueueCounters
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.forms.advisory import AdvisoryForm
from faststream_sql.engine.forms.base import Context, Form, PartitionKeys
from faststream_sql.engine.forms.lease import LeaseForm
from faststream_sql.engine.forms.row_lock import RowLockForm
from faststream_sql.engine.limits import find_limits
from faststream_sql.engine.options import SubscriptionOptions, lease_seconds, poll_seconds
from faststream_sql.engine.patience import patiently
from faststream_sql.engine.skew import check_skew
from faststream_sql.engine.source import BufferedSource, ClaimLoop, DirectSource, Source
from faststream_sql.engine.startup import check_limit, check_server, index_warning, prepare_all
from faststream_sql.engine.tables import OpenTable
from faststream_sql.engine.wakeup import Wakeup
from faststream_sql.engine.worker import Deliver, Handling, Workers
from faststream_sql.errors import ClosedError, DeclarationError, StatementError
from faststream_sql.table.table import QueueTable

if TYPE_CHECKING:
    from faststream_sql.engine.engine import Engine


SETTLING = 3
"""How many deliveries may wait for their commit, for each handler that runs: a commit takes longer than a short handler."""


class Subscription:
    """Reads one group of a table (or the whole of one without groups) and delivers its rows.

    It may be started again after a stop.
    """

    def __init__(
        self, engine: Engine, *, name: str, table: QueueTable, options: SubscriptionOptions, deliver: Deliver, counted: bool = True
    ) -> None:
        self.name = name
        self.table = table
        self.options = options
        self._engine = engine
        self._counted = counted
        self._deliver = deliver
        self._workers: Workers | None = None
        self._form: Form | None = None
        self._wakeup: Wakeup | None = None
        self._context: Context | None = None
        self._opened: OpenTable | None = None
        self._renewer: asyncio.Task[None] | None = None  # of rows that were asked for one by one
        self._starts = 0

    @property
    def holds_connections(self) -> int:
        """How many connections its deliveries may keep at once."""
        return 0 if self.table.form == "lease" else self._workers_wanted

    @property
    def _workers_wanted(self) -> int:
        # one row of a FIFO group is in work at a time: more workers would have nothing to do
        return 1 if self.table.fifo else self.options.max_workers

    @property
    def _tasks_wanted(self) -> int:
        """One worker takes its next row when its last one is settled; of several, three times as many may wait for their commits."""
        return self._workers_wanted if self._workers_wanted == 1 else (1 + SETTLING) * self._workers_wanted

    @property
    def alive(self) -> bool:
        """Whether it is started and all its loops run."""
        return self._workers is not None and self._workers.alive

    @property
    def busy(self) -> bool:
        """Whether its workers have a delivery in work."""
        return self._workers is not None and self._workers.busy

    async def start(self) -> None:
        """Check the table and start the workers. Does nothing for one that runs.

        Raises SchemaError, DeclarationError, ServerTooOldError, and DatabaseError where the database cannot be asked.
        """
        if self._workers is not None:
            return
        self._starts += 1
        turn = self._starts
        form = await self.open()
        if turn != self._starts or self._context is None or self._wakeup is None:
            return  # stopped while it started
        context, wakeup, options = self._context, self._wakeup, self.options
        claims = ClaimLoop(context, form, wakeup, self._poll_seconds(), self._look_again)
        source: Source
        if form.claims_ahead:
            prefetch = options.max_workers if options.prefetch is None else options.prefetch
            prefetch = 0 if self.table.fifo else prefetch
            count = self._tasks_wanted
            source = BufferedSource(
                context, form, claims, running=self._workers_wanted, workers=count, prefetch=prefetch, is_last=self._is_last
            )
        else:
            count = self._workers_wanted
            source = DirectSource(form, claims)
        self._workers = Workers(context, form, source, wakeup, self._handling(context, form), count=count)
        self._workers.start()

    async def by_hand(self) -> tuple[Form, Handling]:
        """What `start` runs on, without the workers: for a caller that claims and delivers by itself. Raises as `start` does."""
        form = await self.open()
        if self._context is None:
            msg = f"subscription {self.name!r} was stopped"
            raise ClosedError(msg)
        return form, self._handling(self._context, form)

    def _handling(self, context: Context, form: Form) -> Handling:
        return Handling(context, form, self._deliver, backoff=self.options.backoff, poll_seconds=self._poll_seconds())

    async def open(self) -> Form:
        """Check the table and make the form, without workers. For `start`, and for rows that are asked for one by one."""
        if self._form is None:
            await patiently(self._open, self._engine.clock, only_reads=True)
        if self._form is None:
            msg = f"subscription {self.name!r} was stopped"
            raise ClosedError(msg)
        return self._form

    async def _open(self) -> None:
        engine, options, table = self._engine, self.options, self.table
        check_limit(self.name, table, options.max_attempts, options.dead_letter)
        who = f"subscription {self.name!r}"
        check_server(engine.dialect, engine.server, table.form)
        if table.fifo:
            check_server(engine.dialect, engine.server, "fifo")
        opened = await engine.open_table(table, who, "claim")
        dead = await self._open_dead(who)
        wakeup = Wakeup(engine.clock)
        counters = engine.counters.of(table, self.name if table.group else None) if self._counted else QueueCounters()
        context = Context(
            name=self.name,
            table=opened,
            group=self.name if table.group else None,
            mutex=group_mutex(table, self.name),
            keys=PartitionKeys(opened),
            dead=dead,
            limit=options.limit(),
            pool=engine.pool,
            clock=engine.clock,
            log=engine.log,
            due=lambda group, moment: engine.wakeups.published(table, group, moment),
            lost=partial(_lost, engine, counters),
            counters=counters,
            command_timeout=engine.settings.command_timeout_seconds,
        )
        await self._check_clock(who)
        form = await self._make_form(context, opened, dead, who)
        if text := index_warning(engine.dialect, table, opened.indexes, who):
            engine.log(logging.WARNING, text)
        await engine.listen(table)
        engine.wakeups.add(table, context.group, wakeup)
        self._context, self._wakeup, self._form = context, wakeup, form
        self._opened = opened

    async def _look_again(self) -> bool:
        """A statement does not fit any more: go on with statements for the table as it is now. Whether anything about it is new.

        Raises SchemaError, with what is missing, for a table that cannot serve any more.
        """
        engine, form, before = self._engine, self._form, self._opened
        who = f"subscription {self.name!r}"
        if form is None or before is None:
            return False
        opened = self._opened = await engine.open_table_anew(self.table, who)
        if (opened.types, opened.indexes) == (before.types, before.indexes):
            return False
        form.restate(opened.types)
        text = index_warning(engine.dialect, self.table, opened.indexes, who)
        engine.log(logging.WARNING, text or f"{who}: the table has changed, and is read as it is now")
        return True

    async def _make_form(self, context: Context, opened: OpenTable, dead: OpenTable | None, who: str) -> Form:
        dialect, table = self._engine.dialect, self.table
        dead_table = dead.table if dead else None
        match table.form:
            case "lease":
                leases = dialect.lease(table, opened.types, dead_table)
                await prepare_all(context.pool, leases, table, who)
                lease = self._lease_seconds()
                return LeaseForm(context, leases, lease)
            case "row_lock":
                locks = dialect.row_lock(table, opened.types, dead_table)
                self._check_pool(context, who)
                await prepare_all(context.pool, locks, table, who)
                limits = await find_limits(context.pool, dialect.limits.get("row_lock"), who, context.log)
                return RowLockForm(context, locks, limits)
            case "advisory":
                keys = await context.pool.process_keys()
                statements = dialect.advisory(table, opened.types, dead_table)
                if keys is None:
                    self._check_pool(context, who)
                    self._engine.refuse_pooler(f"{who}, which holds rows by advisory locks,")
                await prepare_all(context.pool, statements, table, who)
                limits = await find_limits(context.pool, dialect.limits.get("advisory"), who, context.log)
                return AdvisoryForm(context, statements, keys, limits)
            case form:
                assert_never(form)

    async def _check_clock(self, who: str) -> None:
        engine = self._engine
        # a clock of the database's own cannot be off, and one of the user's is the user's to judge
        if type(engine.clock) is SystemClock and engine.dialect.read_clock and self.table.form == "lease":
            await check_skew(engine.pool, engine.dialect.read_clock, engine.clock, self._lease_seconds(), who, engine.log)

    def _lease_seconds(self) -> int:
        lease = self.options.lease
        return self._engine.settings.lease_seconds if lease is None else lease_seconds(lease)

    def _check_pool(self, context: Context, who: str) -> None:
        if context.pool.size < 2:
            msg = (
                f"{who} holds a connection for each delivery, and a pool of {context.pool.size} leaves none for handlers and "
                "publishes: set pool_size=2 or more"
            )
            raise DeclarationError(msg)

    async def _open_dead(self, who: str) -> OpenTable | None:
        dead = self.options.dead_letter
        if dead is None or self.table.group is not None:
            return None
        table = replace_name(self.table, dead) if isinstance(dead, str) else dead
        return await self._engine.open_table(table, who, "dead letter")

    def _poll_seconds(self) -> float:
        interval = self.options.poll_interval
        return self._engine.settings.poll_seconds if interval is None else poll_seconds(interval)

    def _is_last(self, delivery: Delivery) -> bool:
        most = self.options.max_attempts
        return most is not None and delivery.attempt is not None and delivery.attempt >= most

    async def stop(self, graceful_seconds: float | None) -> None:
        """Stop, as `Workers.stop` says. Safe before, during and after a start, and twice."""
        self._starts += 1
        if self._renewer is not None:
            self._renewer.cancel()
            await asyncio.wait([self._renewer])
            self._renewer = None
        workers, self._workers = self._workers, None
        if workers is not None:
            await workers.stop(graceful_seconds)
        form, self._form = self._form, None
        if form is not None and workers is None:
            await form.close()
        if self._context is not None and self._wakeup is not None:
            self._engine.wakeups.remove(self.table, self._context.group, self._wakeup)
            self._wakeup.wake()
        self._context = self._wakeup = None

    async def get_one(self, timeout_seconds: float) -> Delivery | None:
        """Claim one row, waiting for one at most `timeout_seconds`. The caller settles it; until then, or `stop`, its lease is renewed.

        None too where the subscription is stopped meanwhile.
        """
        form = await self.open()
        wakeup, clock = self._wakeup, self._engine.clock
        if wakeup is None:
            msg = f"subscription {self.name!r} was stopped"
            raise ClosedError(msg)
        ends = clock.monotonic() + timeout_seconds
        while self._wakeup is wakeup:
            wakeup.clear()
            found = await self._claim_by_hand(form)
            if found:
                self._renew_by_hand(form)
                return found[0]
            left = ends - clock.monotonic()
            if left < RESOLUTION_SECONDS:
                return None
            await wakeup.wait(min(left, self._poll_seconds()))
        return None

    async def _claim_by_hand(self, form: Form) -> list[Delivery]:
        try:
            return await patiently(lambda: form.claim(1), self._engine.clock)
        except StatementError:
            if not await self._look_again():
                raise
            return await form.claim(1)

    def _renew_by_hand(self, form: Form) -> None:
        """Workers renew what is held; without them nobody would."""
        if form.renew_every_seconds is None or self._workers is not None or self._renewer is not None or self._context is None:
            return
        renewals = self._handling(self._context, form).renew(form.renew_every_seconds)
        self._renewer = asyncio.get_running_loop().create_task(renewals, name=f"renewals of {self.name!r}")


def _lost(engine: Engine, counters: QueueCounters, delivery: Delivery) -> None:
    if delivery.lease_lost:
        return  # a renewal found it before the settlement did
    delivery.lease_lost = True
    counters.lost += 1
    engine.lease_lost(delivery)


def group_mutex(table: QueueTable, group: str) -> int:
    """A signed 64-bit number for a group of a table: the same in every process, and by chance no other's."""
    digest = hashlib.blake2b(repr(("faststream_sql", table.qualified_name, group)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def replace_name(table: QueueTable, name: str) -> QueueTable:
    """The same description for a table of another name in the same schema."""
    return replace(table, name=name)
