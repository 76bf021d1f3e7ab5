"""Informers shared in a process: one watch per view.

    informers = SharedInformers(api, Random(), SystemClock())
    async with informers.running():
        pods = informers.get(Pod, labels="app=db")
        await pods.synced()

An informer starts with the context or at its first ``get``, and runs until the context ends or it is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Trees
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer

View = tuple[KindName, str, str, str, bool]


class SharedInformers:
    def __init__(self, api: Api, rng: Random, clock: Clock, *, streaming: bool = True) -> None:
        self._api = api
        self._rng = rng
        self._clock = clock
        self._streaming = streaming
        self._trees = Trees()
        self._informers: dict[View, Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[Informer, asyncio.Task[None]] = {}

    def get(
        self,
        noun: KindName,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        partial: bool = False,
        optional: bool = False,
    ) -> Informer:
        """The informer of a view: a namespace or all, with selectors or without; ``partial`` has metadata
        only; an ``optional`` kind need not be served, if the first who asks for it says so."""
        view = (noun, namespace, labels, fields, partial)
        if (known := self._informers.get(view)) is not None:
            return known
        informer = Informer(
            self._api,
            noun,
            self._rng,
            self._clock,
            namespace=namespace,
            labels=labels,
            fields=fields,
            streaming=self._streaming,
            partial=partial,
            optional=optional,
            trees=self._trees,
        )
        self._informers[view] = informer
        if self._group is not None:
            self._start(self._group, informer)
        return informer

    def drop(self, noun: KindName, *, partial: bool = False) -> None:
        """Stop following all objects of a kind. A later ``get`` makes another informer."""
        informer = self._informers.pop((noun, "", "", "", partial), None)
        if informer is not None and (task := self._tasks.pop(informer, None)) is not None:
            task.cancel()

    @property
    def problem(self) -> str:
        """The problems of the informers, or empty."""
        found = ((informer.noun.resource, informer.problem) for informer in self._informers.values())
        return "; ".join(f"{name}: {problem}" for name, problem in found if problem)

    async def synced(self) -> None:
        """Wait until every present cache has been filled."""
        for informer in tuple(self._informers.values()):
            await informer.synced()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the informers within the context."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for informer in self._informers.values():
                    self._start(group, informer)
                yield
            finally:
                self._group = None
                for task in tuple(self._tasks.values()):
                    task.cancel()

    def _start(self, group: asyncio.TaskGroup, informer: Informer) -> None:
        self._tasks[informer] = task = group.create_task(informer.run())
        task.add_done_callback(lambda _: self._tasks.pop(informer, None))
