"""Impersonation by headers.

    Impersonate-User: system:serviceaccount:t:robot
    Impersonate-Group: dev                       (may be repeated)
    Impersonate-Uid: 42
    Impersonate-Extra-scopes: read               (may be repeated)

The authenticated user needs the verb ``impersonate`` on users or serviceaccounts, groups, and uids and
userextras of ``authentication.k8s.io``. The audit record names both users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

import msgspec

from pilothouse.apiserver.authentication.authenticator import AUTHENTICATED
from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer, demand
from pilothouse.apiserver.server.messages import ANONYMOUS, Request, User
from pilothouse.meta import errors, names

_PREFIX = "impersonate-"
_EXTRA = "extra-"
_ACCOUNT = "system:serviceaccount:"
_ACCOUNTS = "system:serviceaccounts"
_UNAUTHENTICATED = ANONYMOUS.groups[0]
_IDENTITY = "authentication.k8s.io"


class ImpersonatedUser(msgspec.Struct, frozen=True):
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


def impersonate(request: Request, authorizer: Authorizer) -> None:
    """Replace the user by the one in the headers, if any; 403 if that is not allowed."""
    if not impersonates(request.headers):
        return
    wanted = _read(request)
    for attributes in _needed(wanted):
        demand(authorizer, request.user, attributes)
    request.impersonator, request.user = request.user, _become(wanted)


def impersonates(headers: Mapping[str, str]) -> bool:
    # Two steps, since this is done for every header of every request.
    return any(name[:1] in "iI" and name[: len(_PREFIX)].lower() == _PREFIX for name in headers)


def _read(request: Request) -> ImpersonatedUser:
    user = uid = ""
    groups: list[str] = []
    extra: list[tuple[str, str]] = []
    for name, value in request.headers.items():
        lowered = name.lower()
        if not lowered.startswith(_PREFIX):
            continue
        what = lowered.removeprefix(_PREFIX)
        if what == "user":
            user = user or value
        elif what == "uid":
            uid = uid or value
        elif what == "group":
            groups.append(value)
        elif what.startswith(_EXTRA):
            extra.append((unquote(what.removeprefix(_EXTRA)), value))
    if not user:
        raise errors.bad_request(
            "groups, uid and extra can't be impersonated without a user: Impersonate-User must name one"
        )
    return ImpersonatedUser(user, uid, tuple(groups), tuple(extra))


def _needed(wanted: ImpersonatedUser) -> Iterator[Attributes]:
    namespace, name = _account(wanted.user)
    if name:
        yield Attributes(
            "impersonate", version="v1", resource="serviceaccounts", namespace=namespace, name=name
        )
    else:
        yield Attributes("impersonate", version="v1", resource="users", name=wanted.user)
    for group in wanted.groups:
        yield Attributes("impersonate", version="v1", resource="groups", name=group)
    for key, value in wanted.extra:
        yield Attributes(
            "impersonate", group=_IDENTITY, version="v1", resource="userextras", subresource=key, name=value
        )
    if wanted.uid:
        yield Attributes("impersonate", group=_IDENTITY, version="v1", resource="uids", name=wanted.uid)


def _become(wanted: ImpersonatedUser) -> User:
    namespace, name = _account(wanted.user)
    groups = wanted.groups
    if name and not groups:
        groups = (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}")
    if wanted.user == ANONYMOUS.name:
        if _UNAUTHENTICATED not in groups:
            groups = (*groups, _UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and _UNAUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in wanted.extra:
        extra[key] = (*extra.get(key, ()), value)
    return User(wanted.user, wanted.uid, groups, extra)


def _account(user: str) -> tuple[str, str]:
    """Namespace and name of a service account; empty for any other user."""
    if user.startswith(_ACCOUNT):
        namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
        if not names.label(namespace) and not names.subdomain(name):
            return namespace, name
    return "", ""
