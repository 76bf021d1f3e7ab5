"""A Prometheus, or anything with its HTTP API.

    provider = PrometheusProvider(PrometheusSettings("http://prometheus:9090"))
    await provider.query(["100 * used_bytes / capacity_bytes"], now)

One instant query for each expression, at the server's present time, plus one for the times of the samples
that the expressions select: an instant query returns the time of the evaluation, and a rule must know whether
a figure is older than its last action. Where that one fails, the times are asked for each metric, so that one
with too many series stops the expressions that read it, and no others.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pilothouse.client.access import AccessError, tls_context
from pilothouse.meta import promql
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels, SeriesKey, every_key
from pilothouse.rules.providers.autopilot_config import ConfigError, ProviderConfig
from pilothouse.rules.providers.bounded_http import BoundedHttp, FetchedPage, FetchFailed
from pilothouse.rules.samples import Answer, QueryFailure, Sample

LONGEST: Final = 2**25
"""Of an answer, in bytes."""
MOST_SAMPLES: Final = 250_000
"""Of an answer."""
SECONDS: Final = 10.0
"""For one query."""
ALL_SECONDS: Final = 30.0
"""For all queries of a poll."""
_AT_ONCE: Final = 2
_LATEST: Final = 253_402_300_799.0
"""The end of the year 9999: records can't have a later time."""
_METRIC: Final = "__metric"
_PARAMS: Final = (
    "url", "ignore_unhealthy_targets", "ca_file", "cert_file", "key_file", "server_name", "token_file",
    "insecure_skip_verify", "timeout",
)  # fmt: skip


class PrometheusSettings(msgspec.Struct, frozen=True):
    """Where a Prometheus is, and with which credentials."""

    url: str
    ignore_unhealthy_targets: bool = True
    """False: no answer while any target is down."""
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""
    token_file: Path | None = None
    insecure_skip_verify: bool = False
    seconds: float = SECONDS
    labels: JoinLabels = DEFAULT_LABELS


def settings_of(config: ProviderConfig) -> PrometheusSettings:
    """From the file's entry. Raises ``ConfigError``."""
    params = config.params
    where = f"provider {config.name}: params"
    if unknown := sorted(set(params) - set(_PARAMS)):
        raise ConfigError(f"{where}: {unknown[0]} is not one of {', '.join(_PARAMS)}")
    url = params.get("url", "").rstrip("/").removesuffix("/api/v1")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(f"{where}: url must be such as http://prometheus:9090, not {url!r}")

    def flag(name: str, default: bool) -> bool:
        text = params.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise ConfigError(f"{where}: {name} must be true or false, not {text!r}")
        return text == "true"

    def file(name: str) -> Path | None:
        return Path(params[name]) if params.get(name) else None

    try:
        seconds = float(params.get("timeout", SECONDS))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= ALL_SECONDS:
        raise ConfigError(f"{where}: timeout must be a number of seconds, at most {ALL_SECONDS:g}")
    return PrometheusSettings(
        url,
        ignore_unhealthy_targets=flag("ignore_unhealthy_targets", True),
        ca_file=file("ca_file"),
        cert_file=file("cert_file"),
        key_file=file("key_file"),
        server_name=params.get("server_name", ""),
        token_file=file("token_file"),
        insecure_skip_verify=flag("insecure_skip_verify", False),
        seconds=seconds,
        labels=config.labels,
    )


class PrometheusProvider:
    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._http: BoundedHttp | None = None
        self._tls_read: tuple[object, ...] = ()
        self._opening = asyncio.Lock()
        self._users = 0
        """How many calls use connections."""
        self._retired: list[BoundedHttp] = []
        """Of earlier certificates; a query may use them still."""
        self._closed = False

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        """At the server's present time: its clock made the samples."""
        return await self._answers(expressions, None)

    async def query_at(self, expressions: Sequence[str], at: float) -> Mapping[str, Answer]:
        """As of a time in the past."""
        return await self._answers(expressions, at)

    async def close(self) -> None:
        """Close connections, as soon as no query is under way."""
        self._closed = True
        await self._close_unused()

    async def _answers(self, expressions: Sequence[str], at: float | None) -> Mapping[str, Answer]:
        found: dict[str, Answer] = {}
        if not expressions:
            return found
        self._users += 1
        try:
            async with asyncio.timeout(ALL_SECONDS):
                await self._ask_all(tuple(dict.fromkeys(expressions)), at, found)
        except TimeoutError:
            late = QueryFailure(
                "ProviderUnavailable", f"{self._settings.url}: no answer within {ALL_SECONDS:g} seconds"
            )
            found |= {each: late for each in expressions if each not in found}
        finally:
            self._users -= 1
            await self._close_unused()
        return found

    async def _close_unused(self) -> None:
        if self._users:
            return
        unused, self._retired = self._retired, []
        if self._closed and self._http is not None:
            unused.append(self._http)
            self._http = None
        for each in unused:
            await each.close()

    async def _ask_all(self, expressions: Sequence[str], at: float | None, found: dict[str, Answer]) -> None:
        try:
            await self._check_targets()
        except _Refusal as problem:
            found |= dict.fromkeys(expressions, problem.failure)
            return
        slots = asyncio.Semaphore(_AT_ONCE)
        names_of = {each: frozenset(_instant_names(each)) for each in expressions}
        times, failures = await self._times(sorted(frozenset().union(*names_of.values())), at, slots)

        async def ask(expression: str) -> None:
            if unknown := names_of[expression] & failures.keys():
                found[expression] = failures[min(unknown)]
                return
            async with slots:
                try:
                    samples = await self._vector(expression, at)
                except _Refusal as problem:
                    found[expression] = problem.failure
                else:
                    found[expression] = [self._dated(sample, times) for sample in samples]

        await asyncio.gather(*map(ask, expressions))

    async def _times(
        self, names: Sequence[str], at: float | None, slots: asyncio.Semaphore
    ) -> tuple[Mapping[SeriesKey, float], Mapping[str, QueryFailure]]:
        """When the oldest present sample of each object was measured, of all these metrics together; and why
        that is not known of a metric."""
        times: dict[SeriesKey, float] = {}
        failures: dict[str, QueryFailure] = {}

        async def ask(some: Sequence[str]) -> None:
            async with slots:
                try:
                    await self._note_times(some, at, times)
                except _Refusal as problem:
                    failures.update(dict.fromkeys(some, problem.failure))

        if names:
            await ask(names)
        if failures and len(names) > 1:
            failures.clear()
            await asyncio.gather(*(ask((name,)) for name in names))
        return times, failures

    async def _note_times(
        self, names: Sequence[str], at: float | None, times: dict[SeriesKey, float]
    ) -> None:
        labels = self._settings.labels
        by = dict.fromkeys(name for group in msgspec.structs.astuple(labels) for name in group)
        # timestamp() drops the name: another label keeps the series of two metrics apart.
        each = [f'label_replace(timestamp({name}), "{_METRIC}", "{name}", "", "")' for name in names]
        text = f"min by ({', '.join(by)}) ({' or '.join(each)})"
        for sample in await self._vector(text, at):
            if not _is_time(sample.value):
                problem = ValueError(f"a sample has the time {sample.value!r}")
                raise _Refusal("ProviderUnavailable", self._garbage(problem))
            for key in every_key(sample.labels, labels):
                times[key] = min(times.get(key, math.inf), sample.value)

    def _dated(self, sample: Sample, times: Mapping[SeriesKey, float]) -> Sample:
        key = next(iter(every_key(sample.labels, self._settings.labels)), None)
        measured = times.get(key) if key is not None else None
        return sample if measured is None else Sample(sample.labels, sample.value, min(measured, sample.time))

    async def _check_targets(self) -> None:
        if self._settings.ignore_unhealthy_targets:
            return
        page = await self._get("/api/v1/targets", {"state": "active"})
        try:
            targets = _targets.decode(page.body).data.active
        except (msgspec.DecodeError, RecursionError) as problem:
            raise _Refusal("ProviderUnavailable", self._garbage(problem)) from None
        down = [target.url for target in targets if target.health == "down"]
        if down:
            raise _Refusal(
                "UnhealthyTargets", f"{len(down)} of {len(targets)} targets are down, such as {down[0][:200]}"
            )

    async def _vector(self, expression: str, at: float | None) -> Sequence[Sample]:
        query = {"query": expression, "timeout": f"{self._settings.seconds:g}s"}
        if at is not None:
            query["time"] = f"{at:.3f}"
        page = await self._get("/api/v1/query", query)
        try:
            answer = _answer.decode(page.body)
        except (msgspec.DecodeError, RecursionError) as problem:
            if page.status != 200:
                raise _Refusal(
                    "ProviderUnavailable", f"{self._settings.url} answers HTTP {page.status}"
                ) from None
            raise _Refusal("ProviderUnavailable", self._garbage(problem)) from None
        if answer.status != "success":
            message = f"{answer.error_type}: {answer.error}"[:1000]
            reason = "QueryRefused" if page.status in (400, 422) else "ProviderUnavailable"
            raise _Refusal(reason, f"{self._settings.url}: {message}")
        try:
            samples = list(_samples(answer.data))
        except (msgspec.ValidationError, ValueError) as problem:
            raise _Refusal("ProviderUnavailable", self._garbage(problem)) from None
        if len(samples) > MOST_SAMPLES:
            raise _Refusal(
                "TooManySamples", f"the answer has {len(samples)} samples; at most {MOST_SAMPLES} are taken"
            )
        return samples

    async def _get(self, path: str, query: Mapping[str, str]) -> FetchedPage:
        settings = self._settings
        try:
            headers = {}
            if settings.token_file is not None:
                token = await asyncio.to_thread(_content, settings.token_file)
                headers["Authorization"] = f"Bearer {token.decode().strip()}"
            http = await self._connection()
            return await http.get(
                f"{settings.url}{path}",
                query=query,
                headers=headers,
                longest=LONGEST,
                seconds=settings.seconds,
            )
        except (FetchFailed, AccessError, OSError, UnicodeDecodeError) as problem:
            raise _Refusal("ProviderUnavailable", str(problem)) from None

    async def _connection(self) -> BoundedHttp:
        """Made anew when a file of certificates has changed."""
        settings = self._settings
        files = [
            each for each in (settings.ca_file, settings.cert_file, settings.key_file) if each is not None
        ]
        read = tuple((str(each), each.stat().st_mtime_ns) for each in files)
        async with self._opening:
            if self._http is None or read != self._tls_read:
                tls = await asyncio.to_thread(_tls, settings)
                if self._http is not None:
                    self._retired.append(self._http)
                self._http, self._tls_read = BoundedHttp(tls, server_name=settings.server_name), read
            return self._http

    def _garbage(self, problem: Exception) -> str:
        return f"{self._settings.url} does not answer like a Prometheus: {problem}"[:1000]


class _Refusal(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.failure = QueryFailure(reason, message)


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Reply(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


class _Target(msgspec.Struct, rename="camel"):
    health: str
    url: str = msgspec.field(name="scrapeUrl", default="")


class _TargetData(msgspec.Struct):
    active: list[_Target] = msgspec.field(name="activeTargets")


class _TargetsReply(msgspec.Struct):
    data: _TargetData


_answer = msgspec.json.Decoder(_Reply)
_targets = msgspec.json.Decoder(_TargetsReply)
_vector = msgspec.json.Decoder(list[_Series])
_scalar = msgspec.json.Decoder(tuple[float, str])


def _samples(data: _Data | None) -> Iterable[Sample]:
    if data is None or data.result_type not in ("vector", "scalar"):
        raise ValueError(f"the result is {data.result_type if data else 'missing'}, not a vector")
    if data.result_type == "scalar":
        time, value = _scalar.decode(data.result)
        return [Sample({}, float(value), _checked_time(time))]
    return [
        Sample(series.metric, float(series.value[1]), _checked_time(series.value[0]))
        for series in _vector.decode(data.result)
    ]


def _checked_time(time: float) -> float:
    if not _is_time(time):
        raise ValueError(f"a sample has the time {time!r}")
    return time


def _is_time(seconds: float) -> bool:
    """Whether it is a moment that can be written; NaN is none."""
    return 0.0 <= seconds <= _LATEST


def _instant_names(expression: str) -> Iterable[str]:
    """The metrics that an expression reads at the present time, by name."""
    import promql_parser

    names: list[str] = []

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.VectorSelector) and node.name and not node.offset and not node.at:
            names.append(node.name)
        return True

    try:
        promql_parser.walk(promql.parse(expression), visit)
    except promql.PromqlError:
        # Left to the server, which may know more of the language.
        return ()
    return names


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(2**16)


def _tls(settings: PrometheusSettings) -> ssl.SSLContext | None:
    """Raises ``AccessError`` or ``OSError``."""
    if not settings.url.startswith("https:"):
        return None
    return tls_context(
        settings.ca_file.read_bytes() if settings.ca_file else b"",
        settings.cert_file.read_bytes() if settings.cert_file else b"",
        settings.key_file.read_bytes() if settings.key_file else b"",
        insecure=settings.insecure_skip_verify,
    )
