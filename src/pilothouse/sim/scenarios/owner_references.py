"""A family of objects that belong to one another, and of which some go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from pilothouse.api.kind_names import ConfigMap, KindName, Secret
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import Api, Propagation
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import SPACE, Do, given_space

_PERSISTENT: Final = 30


def owner_users(rng: Random) -> Sequence[UserAction]:
    """A family of config maps and secrets, whose heads are deleted in one way or another, and which get new
    heads."""
    doing: list[UserAction] = [given_space()]
    names = [f"c{number}" for number in range(rng.randint(3, 8))]
    for number, name in enumerate(names):
        parents = rng.sample(names[:number], min(number, rng.randint(0, 2)))
        doing.append(
            UserAction(rng.uniform(0, 3), f"create {name} of {parents or 'nobody'}", _child(name, parents))
        )
    for _ in range(rng.randint(4, 10)):
        after, name, other = rng.uniform(0, 12), rng.choice(names), rng.choice(names)
        kind = rng.random()
        if kind < 0.35:
            doing.append(UserAction(after, f"create {name} of {other}", _child(name, [other])))
        elif kind < 0.5:
            doing.append(UserAction(after, f"replace {name} by one of {other}", _replace(name, other)))
        elif kind < 0.7:
            doing.append(UserAction(after, f"have {name} belong to {other} too", _adopt(name, other)))
        else:
            how: Propagation = rng.choice(("Background", "Foreground", "Orphan"))
            doing.append(UserAction(after, f"delete {name}, {how}", _delete_head(name, how)))
    return doing


async def owners_settled(api: Api) -> str:
    """Nothing is left of which all owners are gone, and nothing is still going."""
    found = [*(await api.list(ConfigMap, SPACE)).objects, *(await api.list(Secret, SPACE)).objects]
    uids = {one.uid for one in found}
    for one in found:
        if one.deleting:
            return f"{one.name} is still being deleted, held by {one.finalizers}"
        if one.owners and not any(owner["uid"] in uids for owner in one.owners):
            return f"{one.name} is left, and all its owners are gone"
    return ""


def _delete_head(name: str, how: Propagation) -> Do:
    """Only what belongs to nobody is deleted by people: the rest is what the invariants are about."""

    async def do(api: Api) -> Object | None:
        found = await api.find(_kind(name), name, SPACE)
        if found is None or found.owners:
            return None
        return await api.delete(_kind(name), name, SPACE, propagation=how, uid=found.uid)

    return do


def _child(name: str, parents: Sequence[str]) -> Do:
    async def do(api: Api) -> Object:
        found = [await api.find(_kind(parent), parent, SPACE) for parent in parents if parent != name]
        owners = [_owner(one) for one in found if one is not None]
        metadata = {"name": name, "namespace": SPACE, "ownerReferences": owners}
        # As whoever looks after it would: it is made again as soon as there is none.
        for _ in range(_PERSISTENT):
            if await api.find(_kind(name), name, SPACE) is None:
                break
            await asyncio.sleep(0.2)
        return await api.create(_kind(name), {"metadata": metadata})

    return do


def _replace(name: str, parent: str) -> Do:
    """Those that it belongs to are deleted, and before anybody else gets to it, it is made again for somebody
    who lives."""

    async def do(api: Api) -> Object | None:
        child = await api.find(_kind(name), name, SPACE)
        found = await api.find(_kind(parent), parent, SPACE)
        if child is None or not child.owners or found is None or found.deleting or name <= parent:
            return None
        heads = [await api.find(_kind(owner["name"]), owner["name"], SPACE) for owner in child.owners]
        going = [head for head in heads if head is not None and head.uid != found.uid]
        if len(going) != len(heads) or any(head.owners for head in going):
            return None
        for head in going:
            await api.delete(_kind(head.name), head.name, SPACE, propagation="Background", uid=head.uid)
        await api.delete(_kind(name), name, SPACE, uid=child.uid)
        metadata = {"name": name, "namespace": SPACE, "ownerReferences": [_owner(found)]}
        return await api.create(_kind(name), {"metadata": metadata})

    return do


def _adopt(name: str, parent: str) -> Do:
    async def do(api: Api) -> Object | None:
        child = await api.find(_kind(name), name, SPACE)
        found = await api.find(_kind(parent), parent, SPACE)
        # Nobody is made a descendant of his own: then neither could go.
        if (
            child is None
            or found is None
            or name <= parent
            or any(o["uid"] == found.uid for o in child.owners)
        ):
            return None
        metadata = {
            "ownerReferences": [*child.owners, _owner(found)],
            "resourceVersion": child.resource_version,
        }
        return await api.patch(_kind(name), name, SPACE, {"metadata": metadata})

    return do


def _kind(name: str) -> KindName:
    """Half of the family are of another kind, of which is heard by another watch."""
    return Secret if int(name[1:]) % 2 else ConfigMap


def _owner(one: Object) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": one.kind,
        "name": one.name,
        "uid": one.uid,
        "blockOwnerDeletion": True,
    }


OWNERS = Scenario(
    "owners", (garbage, service_accounts), owner_users, owners_settled, PROMISES["garbage"], nodes=0
)
