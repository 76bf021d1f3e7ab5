from __future__ import annotations

import email.utils
import uuid

import pytest
from tests.apiserver.server.wire import Dial, Serve

from pilothouse.apiserver.server.messages import TEXT, Request, Response


async def ok(request: Request) -> Response:
    return Response(200, b'{"a":1}')


async def test_type_length_date_and_cache_control(serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(ok))).get("/api")
    assert reply.status == 200
    assert reply.body == b'{"a":1}'
    assert reply.header("Content-Type") == "application/json"
    assert reply.header("Cache-Control") == "no-cache, private"
    assert email.utils.parsedate_to_datetime(reply.header("Date") or "").year >= 2024


async def test_an_audit_id_is_made_for_each_request(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(ok))
    first, second = [(await wire.get("/api")).header("Audit-Id") or "" for _ in range(2)]
    assert uuid.UUID(first) != uuid.UUID(second)


async def test_an_audit_id_that_is_sent_is_echoed(serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(ok))).get("/api", "Audit-ID: mine-7")
    assert reply.header("Audit-Id") == "mine-7"


async def test_an_audit_id_nobody_could_log_is_replaced(serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(ok))).get("/api", f"Audit-ID: {'x' * 500}")
    assert uuid.UUID(reply.header("Audit-Id") or "")


async def test_each_warning_is_a_header_of_its_own(serve: Serve, dial: Dial) -> None:
    async def warn(request: Request) -> Response:
        request.warnings += ['unknown field "spec.bogus"', "a\\b", "späße\r\nSet-Cookie: x", "a\\b"]
        return Response(200, b"{}")

    reply = await (await dial(await serve(warn))).get("/api")
    assert reply.all("Warning") == [
        '299 - "unknown field \\"spec.bogus\\""',
        '299 - "a\\\\b"',
        '299 - "späße  Set-Cookie: x"',
    ]
    assert reply.header("Set-Cookie") is None


async def test_a_flood_of_warnings_is_cut(serve: Serve, dial: Dial) -> None:
    async def warn(request: Request) -> Response:
        request.warnings += [f"{number} " + "w" * 5000 for number in range(100)]
        return Response(200, b"{}")

    warnings = (await (await dial(await serve(warn))).get("/api")).all("Warning")
    assert 10 <= len(warnings) < 20
    assert sum(map(len, warnings)) < 5000
    assert warnings[-1].endswith('further warnings are left out"')


async def test_no_answer_has_more_headers_than_clients_take(serve: Serve, dial: Dial) -> None:
    async def warn(request: Request) -> Response:
        request.warnings += [f"unknown field {number}" for number in range(200)]
        return Response(200, b"{}")

    reply = await (await dial(await serve(warn))).get("/api")
    assert len(reply.headers) < 100
    assert reply.all("Warning")[-1] == '299 - "140 further warnings are left out"'


async def test_an_answer_may_say_how_it_is_cached(serve: Serve, dial: Dial) -> None:
    async def cached(request: Request) -> Response:
        return Response(200, b"{}", headers=(("Cache-Control", "public"), ("ETag", '"abc"')))

    reply = await (await dial(await serve(cached))).get("/openapi/v3")
    assert reply.all("Cache-Control") == ["public"]
    assert reply.header("ETag") == '"abc"'


async def test_head_has_the_length_but_no_body(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(ok))
    reply = await wire.get("/api", method="HEAD")
    assert (reply.status, reply.header("Content-Length")) == (200, "7")
    assert (await wire.get("/api")).body == b'{"a":1}'


async def test_not_modified_has_neither(serve: Serve, dial: Dial) -> None:
    async def unchanged(request: Request) -> Response:
        return Response(304, b"")

    wire = await dial(await serve(unchanged))
    for _ in range(2):
        reply = await wire.get("/apis")
        assert (reply.status, reply.header("Content-Length"), reply.header("Content-Type")) == (
            304,
            None,
            None,
        )


async def test_plain_text_stays_plain_text(serve: Serve, dial: Dial) -> None:
    async def lost(request: Request) -> Response:
        return Response(404, b"404 page not found\n", TEXT)

    reply = await (await dial(await serve(lost))).get("/nowhere")
    assert (reply.status, reply.header("Content-Type")) == (404, "text/plain; charset=utf-8")


async def test_a_handler_that_breaks_is_a_500_status(
    serve: Serve, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: Request) -> Response:
        raise ZeroDivisionError("secret detail")

    reply = await (await dial(await serve(broken))).get("/api")
    assert reply.status == 500
    assert reply.json()["reason"] == "InternalError"
    assert b"secret detail" not in reply.body
    assert "secret detail" in caplog.text
