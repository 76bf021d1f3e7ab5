"""The cluster that an action acts on: its object, or the topmost owner of that."""

from __future__ import annotations

from pilothouse.api.applications.descriptor import Application
from pilothouse.api.applications.registry import application_of_cluster
from pilothouse.api.kind_names import StatefulSet, noun_of
from pilothouse.api.objects import Object
from pilothouse.api.owner_chain import topmost
from pilothouse.controllers.application_actions.action_status import finished
from pilothouse.runtime.intents import SetStatus
from pilothouse.runtime.snapshot import Snapshot


def target_cluster(action: Object, world: Snapshot) -> tuple[Object, Application] | SetStatus:
    """The cluster and its application; or how the action ends, if it is gone or no cluster."""
    reference = action.at("spec", "object", default={})
    kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
    version = str(reference.get("apiVersion", ""))
    named = application_of_cluster(version.rpartition("/")[0], kind)
    noun = named.cluster if named is not None else noun_of(version, kind)
    if noun is None or (named is None and noun != StatefulSet):
        message = f"{kind} {name} is no cluster of a database that is known here"
        return finished(action, "Declined", "NoCluster", message, now=world.now)
    found = world.find(noun, action.namespace, name)
    if found is None or found.deleting or found.uid != reference.get("uid", found.uid):
        message = f"{kind} {action.namespace}/{name} is gone"
        return finished(action, "Failed", "ObjectGone", message, now=world.now)
    cluster = topmost(found, world.find)
    application = application_of_cluster(cluster.noun.group, cluster.kind)
    if application is None:
        message = f"{cluster.kind} {cluster.name} is no cluster of a database that is known here"
        return finished(action, "Declined", "NoCluster", message, now=world.now)
    return cluster, application
