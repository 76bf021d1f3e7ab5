from __future__ import annotations

import asyncio
import json
import re

import pytest

from pilothouse.apiserver.discovery import version
from pilothouse.apiserver.server import health
from pilothouse.apiserver.server.health import Health


def saying(problem: str) -> health.Probe:
    async def probe() -> str:
        return problem

    return probe


async def test_a_sound_server_says_ok() -> None:
    sound = Health()
    sound.add("store", saying(""))
    for path in ("/healthz", "/livez", "/readyz", "/readyz/", "/readyz/store"):
        reply = await sound.answer(path)
        assert (reply.status, reply.body, reply.content_type) == (200, b"ok", "text/plain; charset=utf-8")


async def test_what_is_wrong_is_named() -> None:
    ill = Health()
    ill.add("store", saying("no leader"))
    reply = await ill.answer("/readyz")
    assert reply.status == 500
    assert bytes(reply.body).decode().splitlines() == [
        "[+]ping ok",
        "[+]shutdown ok",
        "[-]store failed: no leader",
        "readyz check failed",
    ]


async def test_update_tools_ask_for_readiness_by_another_name() -> None:
    one = Health()
    one.add("store", saying("no leader"))
    assert health.serves("/ready")
    assert not health.serves("/readyness")
    assert (await one.answer("/ready")).body == (await one.answer("/readyz")).body
    assert (await one.answer("/ready")).status == 500
    assert (await one.answer("/ready", exclude=frozenset({"store"}))).status == 200


async def test_liveness_is_only_what_a_restart_mends() -> None:
    ill = Health()
    ill.add("store", saying("no leader"))
    assert (await ill.answer("/livez")).status == 200
    ill.add("loop", saying("stuck"), live=True)
    assert (await ill.answer("/livez")).status == 500


async def test_a_check_can_be_left_out_or_asked_alone() -> None:
    ill = Health()
    ill.add("store", saying("no leader"))
    assert (await ill.answer("/readyz", exclude=frozenset({"store"}))).status == 200
    assert (await ill.answer("/readyz/store")).status == 500
    assert (await ill.answer("/readyz/ping")).status == 200
    assert (await ill.answer("/readyz/other")).status == 404


async def test_verbose_lists_the_checks() -> None:
    reply = await Health().answer("/readyz", verbose=True, exclude=frozenset({"ping", "nope"}))
    text = bytes(reply.body).decode()
    assert "[+]ping excluded: ok" in text
    assert "[+]shutdown ok" in text
    assert 'no matches for "nope"' in text
    assert text.endswith("readyz check passed\n")


async def test_a_check_that_breaks_or_hangs_has_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks() -> str:
        raise OSError("disk on fire")

    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(health, "PATIENCE", 0.01)
    ill = Health()
    ill.add("disk", breaks)
    ill.add("etcd", hangs)
    text = bytes((await ill.answer("/readyz")).body).decode()
    assert "[-]disk failed: OSError: disk on fire" in text
    assert "[-]etcd failed: no answer within" in text
    [told] = caplog.records
    assert told.message == "the check disk broke"
    assert told.exc_info is not None


@pytest.mark.parametrize("path", ["/healthzz", "/api", "/", "/x/healthz"])
def test_other_paths_are_not_healths(path: str) -> None:
    assert not health.serves(path)


@pytest.mark.parametrize("own", ["0.1.0", "1.2.3rc1", "0.1.0.dev3+g12ab_cd"])
def test_the_version_is_semantic_and_marked(own: str) -> None:
    semantic = r"v1\.32\.0\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*"
    assert re.fullmatch(semantic, version.git_version(own))
    assert "+pilothouse" in version.git_version(own)


def test_the_version_document_has_what_clients_read() -> None:
    document = json.loads(bytes(version.answer().body))
    assert (document["major"], document["minor"]) == ("1", "32")
    assert {
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    } <= set(document)
