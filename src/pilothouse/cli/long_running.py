"""Commands that stay until they are told to stop: how they log, and on what they run.

    @verbose_flag("Log more; twice for every request.")
    def apiserver(verbose: int, ...):
        log_to_stderr(verbose)
        run_fast(lambda: run(options, announce=click.echo))

The fast event loop is for those that start no processes of their own: it would keep others from hearing of their children.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from pilothouse.app.options import StartError
from pilothouse.base.log_limits import RepeatLimit

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

F = TypeVar("F", bound=Callable[..., Any])


def verbose_flag(help: str) -> Callable[[F], F]:
    """``-v``, and again for more."""
    return click.option("-v", "--verbose", count=True, help=help)


def log_to_stderr(verbose: int) -> None:
    """As much as was asked for."""
    logging.basicConfig(level=_LEVELS[min(verbose, 2)], format=_FORMAT, stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.addFilter(RepeatLimit())


def run_fast(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run until it returns. What keeps it from starting is told in a line."""
    # Imported here: a command that prints a line is not to wait for it.
    import asyncio

    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
