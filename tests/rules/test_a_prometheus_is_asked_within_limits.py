"""A Prometheus that is away, slow, endless, wrong or enormous costs little, and nothing follows from it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import ssl
import tracemalloc
import warnings
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tests.kit.certificates import Authority
from tests.rules.metrics_server import Flood, MetricsServer, Page, answer, endless, never

from pilothouse.rules.providers import prometheus as module
from pilothouse.rules.providers.autopilot_config import ProviderConfig
from pilothouse.rules.providers.bounded_http import BoundedHttp, FetchFailed
from pilothouse.rules.providers.prometheus import PrometheusProvider, PrometheusSettings, settings_of
from pilothouse.rules.samples import Answer, QueryFailure, Sample


def vector(*series: tuple[Mapping[str, str], float, str]) -> bytes:
    result = [{"metric": labels, "value": [time, value]} for labels, time, value in series]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


async def asked(page: Page, query: str = "1 + vector(1)", **settings: object) -> Answer:
    """What comes of one query, answered with this page."""
    async with MetricsServer({"/api/v1/query": page, "/api/v1/targets": page}) as server:
        made = msgspec.structs.replace(PrometheusSettings(server.url, seconds=0.5), **settings)
        provider = PrometheusProvider(made)
        try:
            return (await provider.query([query], 0.0))[query]
        finally:
            await provider.close()


async def test_samples_are_returned() -> None:
    found = await asked(vector(({"volumename": "a"}, 100.5, "51.5"), ({}, 100.5, "NaN")))
    assert not isinstance(found, QueryFailure)
    assert found[0] == Sample({"volumename": "a"}, 51.5, 100.5)
    assert found[1].value != found[1].value


async def test_a_number_is_a_series_without_labels() -> None:
    body = b'{"status":"success","data":{"resultType":"scalar","result":[7,"2"]}}'
    assert await asked(body) == [Sample({}, 2.0, 7.0)]


@pytest.mark.parametrize("value", ["-Inf", "+Inf", "NaN", "-1e300"])
async def test_times_that_are_none_are_no_answer(value: str) -> None:
    """The same page answers the question for the times of the samples."""
    found = await asked(vector(({"volumename": "a"}, 100.5, value)), query="used_bytes")
    assert isinstance(found, QueryFailure)
    assert "a sample has the time" in found.message


async def test_messages_have_no_query_of_the_address() -> None:
    """A server that breaks the protocol makes the client repeat the whole address."""
    async with MetricsServer({"/api/v1/query": b"HTTP/9.9 what\r\n\r\n"}) as server:
        http = BoundedHttp()
        try:
            with pytest.raises(FetchFailed) as failed:
                await http.get(f"{server.url}/api/v1/query?token=secret", longest=100, seconds=5.0)
        finally:
            await http.close()
    assert "/api/v1/query can't be read" in str(failed.value)
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("page", "reason", "message"),
    [
        (never, "ProviderUnavailable", "did not answer within 0.5 seconds"),
        (endless, "ProviderUnavailable", "did not answer within 0.5 seconds"),
        (b"<html>login</html>", "ProviderUnavailable", "does not answer like a Prometheus"),
        (b"[" * 100_000, "ProviderUnavailable", "does not answer like a Prometheus"),
        (b'{"status":"success"}', "ProviderUnavailable", "the result is missing"),
        (vector(({}, 1, "much")), "ProviderUnavailable", "could not convert string to float"),
        (vector(({}, 1e300, "1")), "ProviderUnavailable", "a sample has the time 1e+300"),
        (vector(({}, -1e300, "1")), "ProviderUnavailable", "a sample has the time -1e+300"),
        (
            b'{"status":"success","data":{"resultType":"scalar","result":[1e300,"2"]}}',
            "ProviderUnavailable",
            "a sample has the time 1e+300",
        ),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "ProviderUnavailable", "matrix"),
        (answer(b"gone", "502 Bad Gateway"), "ProviderUnavailable", "answers HTTP 502"),
        (answer(b"", "302 Found", "Location: http://other/\r\n"), "ProviderUnavailable", "answers HTTP 302"),
        (answer(b"x", headers="Content-Encoding: gzip\r\n"), "ProviderUnavailable", "answers compressed"),
        (b"HTTP/9.9 what\r\n\r\n", "ProviderUnavailable", "can't be read"),
        (
            answer(b'{"status":"error","errorType":"bad_data","error":"parse error"}', "400 Bad Request"),
            "QueryRefused",
            "bad_data: parse error",
        ),
        (
            answer(b'{"status":"error","errorType":"timeout","error":"too slow"}', "503 Busy"),
            "ProviderUnavailable",
            "timeout: too slow",
        ),
    ],
)
async def test_no_answer_is_said_with_its_reason(page: Page, reason: str, message: str) -> None:
    found = await asked(page)
    assert isinstance(found, QueryFailure)
    assert (found.reason, message in found.message) == (reason, True), found


async def test_nothing_listens() -> None:
    provider = PrometheusProvider(PrometheusSettings("http://127.0.0.1:1", seconds=0.5))
    found = (await provider.query(["up"], 0.0))["up"]
    await provider.close()
    assert isinstance(found, QueryFailure)
    assert "http://127.0.0.1:1/api/v1/query can't be read" in found.message


async def test_a_gigabyte_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 2**20)
    flood = Flood()
    tracemalloc.start()
    try:
        found = await asked(flood, seconds=20.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, QueryFailure)
    assert "answers more than 1048576 bytes" in found.message
    assert flood.sent < 2**25
    assert peak < 2**25


async def test_too_many_samples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SAMPLES", 2)
    found = await asked(vector(*[({"n": str(number)}, 1.0, "1") for number in range(3)]))
    assert found == QueryFailure("TooManySamples", "the answer has 3 samples; at most 2 are taken")


async def test_the_times_of_samples_are_asked_for_once() -> None:
    """An instant query has the time of its evaluation; a rule needs that of the sample."""
    async with MetricsServer({}) as server:
        series = ({"namespace": "db", "persistentvolumeclaim": "a"}, 1000.0, "990.25")
        server.pages = {"/api/v1/query": vector(series)}
        provider = PrometheusProvider(PrometheusSettings(server.url))
        found = await provider.query(["used / cap", "used", "rate(reads[5m])"], 0.0)
        await provider.close()
    samples = found["used / cap"]
    assert not isinstance(samples, QueryFailure)
    assert [sample.time for sample in samples] == [990.25]
    times = [each for each in server.asked if "timestamp(" in each]
    assert len(times) == 1
    assert [name in times[0] for name in ("timestamp(cap)", "timestamp(reads)", "timestamp(used)")] == [
        True
    ] * 3
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    "labels",
    [
        {"pool": "p1"},
        {"namespace": "db", "statefulset": "main"},
        {"namespace": "db", "deployment": "main"},
        {"namespace": "db", "cluster": "main"},
        {"instance": "10.0.0.7:9100", "device": "sda"},
        {"node": "n1", "device": "sda"},
    ],
    ids=lambda labels: "-".join(labels),
)
async def test_samples_of_every_level_have_their_own_times(labels: dict[str, str]) -> None:
    """A page that groups the times as it was asked to: those of the object, and older ones of another."""

    async def grouped(writer: asyncio.StreamWriter, target: str) -> None:
        query = parse_qs(urlsplit(target).query)["query"][0]
        if "timestamp(" not in query:
            writer.write(answer(vector((labels, 1000.0, "7"))))
            return
        kept = set(query.partition("min by (")[2].partition(")")[0].split(", "))
        times: dict[frozenset[tuple[str, str]], float] = {}
        other = {name: f"other-{value}" for name, value in labels.items()}
        for series, time in ((labels, 990.0), (other, 980.0)):
            group = frozenset((name, value) for name, value in series.items() if name in kept)
            times[group] = min(times.get(group, time), time)
        writer.write(answer(vector(*[(dict(group), 1000.0, str(time)) for group, time in times.items()])))

    found = await asked(grouped, query="busy")
    assert found == [Sample(labels, 7.0, 990.0)]


async def test_a_metric_with_too_many_series_stops_the_expressions_that_read_it_alone() -> None:
    refused = answer(b'{"status":"error","errorType":"execution","error":"too many samples"}', "422 No")

    async def page(writer: asyncio.StreamWriter, target: str) -> None:
        query = parse_qs(urlsplit(target).query)["query"][0]
        if "timestamp(huge)" in query:
            writer.write(refused)
        else:
            writer.write(answer(vector(({"volumename": "a"}, 1000.0, "990"))))

    async with MetricsServer({"/api/v1/query": page}) as server:
        provider = PrometheusProvider(PrometheusSettings(server.url))
        found = await provider.query(["used / cap", "huge", "used / huge", "used", "1 + vector(1)"], 0.0)
        await provider.close()
    for text in ("used / cap", "used"):
        assert found[text] == [Sample({"volumename": "a"}, 990.0, 990.0)], text
    assert isinstance(found["1 + vector(1)"], list)
    for text in ("huge", "used / huge"):
        failure = found[text]
        assert isinstance(failure, QueryFailure)
        assert (failure.reason, "too many samples" in failure.message) == ("QueryRefused", True)


async def test_a_changed_certificate_breaks_no_query_under_way(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path)
    may_answer = asyncio.Event()

    async def page(writer: asyncio.StreamWriter, target: str) -> None:
        match parse_qs(urlsplit(target).query)["query"][0]:
            case "vector(1)":
                await may_answer.wait()
            case "vector(2)":
                os.utime(authority.cert, ns=(1, 1))
            case "vector(3)":
                may_answer.set()
        writer.write(answer(vector(({}, 1.0, "5"))))

    texts = ["vector(1)", "vector(2)", "vector(3)"]
    async with MetricsServer({"/api/v1/query": page}) as server:
        provider = PrometheusProvider(PrometheusSettings(server.url, ca_file=authority.cert, seconds=20.0))
        await provider.query(["vector(0)"], 0.0)
        found = await provider.query(texts, 0.0)
        await provider.close()
    assert list(found.values()) == [[Sample({}, 5.0, 1.0)]] * 3


async def test_queries_that_begin_at_once_share_connections_which_are_closed() -> None:
    texts = ["vector(1)", "vector(2)"]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with MetricsServer({"/api/v1/query": vector(({}, 1.0, "5"))}) as server:
            provider = PrometheusProvider(PrometheusSettings(server.url, seconds=20.0))
            await asyncio.gather(*(provider.query([text], 0.0) for text in texts))
            await provider.close()
        gc.collect()
    assert [str(each.message) for each in seen if "Unclosed" in str(each.message)] == []


async def test_unhealthy_targets_stop_it_if_asked_to() -> None:
    targets = {"data": {"activeTargets": [{"health": "up"}, {"health": "down", "scrapeUrl": "http://n1/"}]}}
    found = await asked(json.dumps(targets).encode(), ignore_unhealthy_targets=False)
    assert found == QueryFailure("UnhealthyTargets", "1 of 2 targets are down, such as http://n1/")
    assert isinstance(await asked(vector(), ignore_unhealthy_targets=True), list)


async def test_a_token_file_is_read_for_every_query(tmp_path: Path) -> None:
    token = tmp_path / "token"
    found = await asked(vector(), token_file=token)
    assert isinstance(found, QueryFailure)
    assert "No such file" in found.message
    token.write_text("secret\n")
    assert await asked(vector(), token_file=token) == []


async def test_a_prometheus_with_tls_is_asked_with_a_certificate(tmp_path: Path) -> None:
    """By the parameters of the file; without the authority, or without a client certificate, there is no answer."""
    authority = Authority.create(tmp_path)
    pair, client = authority.server(), authority.client("rules", group="people")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.cert))
    tls.load_cert_chain(pair.cert, pair.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    trusted = {"ca_file": str(authority.cert), "cert_file": str(client.cert), "key_file": str(client.key)}
    async with MetricsServer({"/api/v1/query": vector(({}, 1.0, "5"))}, tls) as server:

        async def asked_with(**params: str) -> Answer:
            config = ProviderConfig("default", "prometheus", {"url": server.url, "timeout": "5", **params})
            provider = PrometheusProvider(settings_of(config))
            try:
                return (await provider.query(["1 + vector(1)"], 0.0))["1 + vector(1)"]
            finally:
                await provider.close()

        assert await asked_with(**trusted) == [Sample({}, 5.0, 1.0)]
        anonymous = {name: file for name, file in trusted.items() if name == "ca_file"}
        unknown = {name: file for name, file in trusted.items() if name != "ca_file"}
        other = {**trusted, "server_name": "other.example"}
        for params in ({}, anonymous, unknown, other):
            found = await asked_with(**params)
            assert isinstance(found, QueryFailure), params
            assert found.reason == "ProviderUnavailable"
        assert await asked_with(**unknown, insecure_skip_verify="true") == [Sample({}, 5.0, 1.0)]
