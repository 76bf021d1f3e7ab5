"""Asks update servers what their channels offer.

    async with open_session() as session:
        offer = await ask_index(session, server, "stable", facts, token)           # periodic
        offer = await ask_legacy(session, server, "stable", facts, token, state)   # cron

Either raises ``NoOffer``, whose text says why in words for the UpdateConfig's status. A token is sent over
TLS, and over plain HTTP to this machine alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from pilothouse.updates.channel_index import LONGEST_INDEX, BadIndex, ChannelOffer, parse_offer
from pilothouse.updates.cluster_facts import ClusterFacts
from pilothouse.updates.http_fetch import FetchError, FetchSession, fetch


class NoOffer(Exception):
    """A check that gave no offer; the text says why."""


def channel_url(server: str, channel: str) -> str:
    """The folder of a channel, with a slash at its end. A server without a scheme is one of https."""
    base = server if "://" in server else f"https://{server}"
    return f"{base.rstrip('/')}/{quote(channel, safe='/')}/"


def legacy_url(server: str, channel: str, facts: ClusterFacts, plan_state: str) -> str:
    """The address of the older form: the server's own path is not used."""
    parts = urlsplit(server if "://" in server else f"https://{server}")
    query = urlencode(
        {"clusterID": facts.cluster, "lastUpdateStatus": plan_state, "currentVersion": facts.version}
    )
    return urlunsplit((parts.scheme, parts.netloc, f"/{quote(channel or 'stable', safe='/')}", query, ""))


async def ask_index(
    session: FetchSession, server: str, channel: str, facts: ClusterFacts, token: str
) -> ChannelOffer:
    """What ``index.yaml`` of a channel offers. Raises NoOffer."""
    url = f"{channel_url(server, channel)}index.yaml"
    return await _asked(session, url, facts.headers(), token)


async def ask_legacy(
    session: FetchSession,
    server: str,
    channel: str,
    facts: ClusterFacts,
    token: str,
    plan_state: str,
) -> ChannelOffer:
    """What the older form of a channel offers. Raises NoOffer."""
    return await _asked(session, legacy_url(server, channel, facts, plan_state), {}, token)


def authorization(url: str, token: str) -> dict[str, str]:
    """The header that carries a token to this address. Raises NoOffer where it would be readable."""
    if not token:
        return {}
    parts = urlsplit(url)
    if parts.scheme != "https" and not _is_here(parts.hostname or ""):
        raise NoOffer(
            f"{parts.scheme}://{parts.netloc} is not asked: the token of Secret "
            "kube-system/update-server-token would be readable on the way; use https"
        )
    return {"Authorization": f"Bearer {token}"}


async def _asked(session: FetchSession, url: str, headers: Mapping[str, str], token: str) -> ChannelOffer:
    try:
        body = await fetch(session, url, {**headers, **authorization(url, token)}, longest=LONGEST_INDEX)
        return parse_offer(body, url)
    except FetchError as error:
        raise NoOffer(f"{error}{_hint(error.status, token)}") from None
    except BadIndex as error:
        raise NoOffer(f"{url}: {error}") from None


def _hint(status: int, token: str) -> str:
    if status not in (401, 403):
        return ""
    if token:
        return "; the token of Secret kube-system/update-server-token is not accepted"
    return "; it wants a token: create Secret kube-system/update-server-token with the key token"


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
