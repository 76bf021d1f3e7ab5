from __future__ import annotations

from tests.apiserver.server.wire import Dial, Serve

from pilothouse.apiserver.server.messages import Request, Response


async def echo(request: Request) -> Response:
    return Response(200, f"{request.method} {request.path}?{request.query} {request.body.decode()}".encode())


async def test_one_after_the_other(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(echo))
    for number in range(5):
        assert (await wire.get(f"/a/{number}")).body == f"GET /a/{number}? ".encode()
        reply = await wire.get(f"/b/{number}?x=1", method="POST", body=b"hello")
        assert reply.body == f"POST /b/{number}?x=1 hello".encode()


async def test_pipelined_requests_are_answered_in_order(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(echo))
    wire.writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(200)))
    for number in range(200):
        assert (await wire.reply()).body == f"GET /{number}? ".encode()


async def test_others_are_answered_between_pipelined_requests(serve: Serve, dial: Dial) -> None:
    served = []

    async def noted(request: Request) -> Response:
        served.append(request.path)
        if len(served) == 1:
            modest.writer.write(b"GET /modest HTTP/1.1\r\nHost: x\r\n\r\n")
        return Response(200, b"")

    port = await serve(noted)
    greedy, modest = await dial(port), await dial(port)
    greedy.writer.write(b"GET /greedy HTTP/1.1\r\nHost: x\r\n\r\n" * 300)
    await modest.reply()
    for _ in range(300):
        await greedy.reply()
    assert served.index("/modest") < 100


async def test_close_is_honoured(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(echo))
    reply = await wire.get("/a", "Connection: close")
    assert reply.header("Connection") == "close"
    assert await wire.rest() == b""


async def test_http_1_0_gets_an_answer_and_a_close(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(echo))
    reply = await wire.ask(b"GET /a HTTP/1.0\r\n\r\n")
    assert (reply.status, reply.body) == (200, b"GET /a? ")
    assert await wire.rest() == b""


async def test_a_large_answer_arrives_whole(serve: Serve, dial: Dial) -> None:
    body = bytes(range(256)) * 20_000

    async def large(request: Request) -> Response:
        return Response(200, body)

    wire = await dial(await serve(large))
    for _ in range(3):
        assert (await wire.get("/a")).body == body


async def test_chunked_bodies_are_joined(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(echo))
    raw = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert (await wire.ask(raw)).body == b"POST /a? abcde"
    assert (await wire.get("/b")).body == b"GET /b? "


async def test_a_client_that_asks_first_is_told_to_continue(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(echo))
    wire.writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert (await wire.head()).status == 100
    wire.writer.write(b"hello")
    assert (await wire.reply()).body == b"POST /a? hello"


async def test_a_path_is_decoded_and_a_query_is_not(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(echo))
    reply = await wire.get("/api/v1/namespaces/t/configmaps/a%2Db%C3%A4?labelSelector=a%3Db")
    assert reply.body.decode() == "GET /api/v1/namespaces/t/configmaps/a-bä?labelSelector=a%3Db "
