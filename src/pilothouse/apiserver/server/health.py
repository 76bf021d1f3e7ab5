"""``/livez``, ``/readyz`` and ``/healthz``, made of named checks.

    health = Health()
    health.add("store", store_answers)
    await health.examine(request)                    # or: health.answer("/readyz", verbose=True)

A check returns what is wrong, or nothing. ``/livez`` fails only for what a restart repairs, ``/readyz`` also
during shutdown. ``?verbose`` lists checks, ``?exclude=name`` skips one, ``/readyz/name`` runs one. ``/ready``
is another name of ``/readyz``, for update tools that ask there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

import msgspec

from pilothouse.apiserver.server.messages import TEXT, Request, Response
from pilothouse.meta.errors import StatusError

Probe = Callable[[], Awaitable[str]]
"""Returns what is wrong, or the empty string."""
ROOTS = ("healthz", "livez", "readyz")
_ALIASES = {"ready": "readyz"}
_SERVED = frozenset((*ROOTS, *_ALIASES))
_FIRST = ("/healthz", "/livez", "/ready")
"""How these paths start: most requests are told apart by this alone."""
PATIENCE = 5.0
"""Seconds that a probe may take."""

log = logging.getLogger(__name__)


class _Check(msgspec.Struct, frozen=True):
    name: str
    probe: Probe
    roots: frozenset[str]

    async def problem(self) -> str:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.probe()
        except TimeoutError:
            return f"no answer within {PATIENCE:g} seconds"
        except Exception as error:
            # What a check expects to go wrong it says itself.
            log.exception("the check %s broke", self.name)
            return f"{type(error).__name__}: {error}"


class Health:
    """The checks of a server. ``ping`` is always present, ``shutdown`` always part of ``/readyz``."""

    def __init__(self) -> None:
        self._draining = False
        self._checks = [
            _Check("ping", _well, frozenset(ROOTS)),
            _Check("shutdown", self._staying, frozenset({"readyz"})),
        ]

    def add(self, name: str, probe: Probe, *, live: bool = False) -> None:
        """Add a check; ``live`` if its failure means that the process should be restarted."""
        roots = {"healthz", "readyz", "livez"} if live else {"healthz", "readyz"}
        self._checks.append(_Check(name, probe, frozenset(roots)))

    def drain(self) -> None:
        """Make ``/readyz`` fail, so that load balancers go elsewhere."""
        self._draining = True

    async def examine(self, request: Request) -> Response:
        """The response for a path that ``serves`` accepts."""
        if request.method not in ("GET", "HEAD"):
            raise StatusError(405, "MethodNotAllowed", f"{request.method} is not supported on {request.path}")
        query = parse_qs(request.query, keep_blank_values=True)
        return await self.answer(
            request.path, verbose="verbose" in query, exclude=frozenset(query.get("exclude", ()))
        )

    async def answer(
        self, path: str, *, verbose: bool = False, exclude: frozenset[str] = frozenset()
    ) -> Response:
        root, _, one = path.strip("/").partition("/")
        root = _ALIASES.get(root, root)
        checks = [check for check in self._checks if root in check.roots and one in ("", check.name)]
        if not checks:
            return Response(404, b"404 page not found\n", TEXT)
        lines: list[str] = []
        failed = False
        for check in checks:
            if check.name in exclude:
                lines.append(f"[+]{check.name} excluded: ok")
            elif problem := await check.problem():
                failed = True
                lines.append(f"[-]{check.name} failed: {problem}")
            else:
                lines.append(f"[+]{check.name} ok")
        if unknown := sorted(exclude.difference(check.name for check in checks)):
            named = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
        if failed:
            return Response(500, "\n".join([*lines, f"{root} check failed", ""]).encode(), TEXT)
        if verbose and not one:
            return Response(200, "\n".join([*lines, f"{root} check passed", ""]).encode(), TEXT)
        return Response(200, b"ok", TEXT)

    async def _staying(self) -> str:
        return "the server is shutting down" if self._draining else ""


async def _well() -> str:
    return ""


def serves(path: str) -> bool:
    return path.startswith(_FIRST) and path.strip("/").partition("/")[0] in _SERVED
