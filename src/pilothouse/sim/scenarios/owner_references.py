"""Objects that own one another, of which some are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from pilothouse.api.kind_names import ConfigMap, KindName, Secret
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.client.api import Api, Propagation
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import SPACE, Do, given_space

_PERSISTENT: Final = 30


def owner_users(rng: Random) -> Sequence[UserAction]:
    """A tree of config maps and secrets whose roots are deleted, in each propagation mode, and replaced."""
    doing: list[UserAction] = [given_space()]
    names = [f"c{number}" for number in range(rng.randint(3, 8))]
    for number, name in enumerate(names):
        parents = rng.sample(names[:number], min(number, rng.randint(0, 2)))
        what = f"create {name} of {parents or 'nobody'}"
        doing.append(UserAction(rng.uniform(0, 3), what, _child(name, parents)))
    for _ in range(rng.randint(4, 10)):
        after, name, other = rng.uniform(0, 12), rng.choice(names), rng.choice(names)
        kind = rng.random()
        if kind < 0.35:
            what, do = f"create {name} of {other}", _child(name, [other])
        elif kind < 0.5:
            what, do = f"replace {name} by one of {other}", _replace(name, other)
        elif kind < 0.7:
            what, do = f"have {name} belong to {other} too", _adopt(name, other)
        else:
            how: Propagation = rng.choice(("Background", "Foreground", "Orphan"))
            what, do = f"delete {name}, {how}", _delete_head(name, how)
        doing.append(UserAction(after, what, do))
    return doing


async def owners_settled(api: Api) -> str:
    """No object is left whose owners are all gone, and none is being deleted."""
    found = [*(await api.list(ConfigMap, SPACE)).objects, *(await api.list(Secret, SPACE)).objects]
    uids = {one.uid for one in found}
    for one in found:
        if one.deleting:
            return f"{one.name} is still being deleted, held by {one.finalizers}"
        if one.owners and not any(owner["uid"] in uids for owner in one.owners):
            return f"{one.name} is left, and all its owners are gone"
    return ""


def _delete_head(name: str, how: Propagation) -> Do:
    """Users delete only objects without owners: the invariants are about the others."""

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
        # As its controller would: it is created again as soon as it is gone.
        for _ in range(_PERSISTENT):
            if await api.find(_kind(name), name, SPACE) is None:
                break
            await asyncio.sleep(0.2)
        return await api.create(_kind(name), {"metadata": metadata})

    return do


def _replace(name: str, parent: str) -> Do:
    """Delete the owners of an object, and create it again at once with a live owner."""

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
        # A child's name is above its parent's: in a cycle of owners none could be deleted.
        if child is None or found is None or name <= parent:
            return None
        if any(owner["uid"] == found.uid for owner in child.owners):
            return None
        owners = [*child.owners, _owner(found)]
        metadata = {"ownerReferences": owners, "resourceVersion": child.resource_version}
        return await api.patch(_kind(name), name, SPACE, {"metadata": metadata})

    return do


def _kind(name: str) -> KindName:
    """Half of the objects are of another kind, which is followed by another watch."""
    return Secret if int(name[1:]) % 2 else ConfigMap


def _owner(one: Object) -> Tree:
    return owner_reference(one, controller=False)


OWNERS = Scenario(
    "owners", (garbage, service_accounts), owner_users, owners_settled, PROMISES["garbage"], nodes=0
)
