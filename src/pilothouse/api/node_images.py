"""The images that a Node has.

    lacks(node, "docker.elastic.co/elasticsearch/elasticsearch:8.17.0")     # True if it has and pulls none

Only our own nodes are known to lack an image: others pull what they don't have.
"""

from __future__ import annotations

import shlex
from typing import Final

from pilothouse.api.objects import Object

DATA_FOLDER: Final = "pilothouse.io/data-folder"
"""The annotation of a Node with the folder for ``pilothouse image import --data`` on its machine."""
MOST_IMAGES: Final = 50
"""How many images a Node lists, largest first, as kubelet does."""
USUAL_DATA_FOLDER: Final = "/var/lib/pilothouse"
_RUNTIME: Final = "pilothouse://"
_HOST: Final = "host/"


def lacks(node: Object, image: str) -> bool:
    """True if a node certainly doesn't have an image and doesn't pull it."""
    runtime = str(node.at("status", "nodeInfo", "containerRuntimeVersion") or "")
    listed = node.status.get("images") or ()
    if not runtime.startswith(_RUNTIME) or image.startswith(_HOST) or len(listed) >= MOST_IMAGES:
        return False
    if DATA_FOLDER not in node.annotations:
        return False  # An agent that does not list its images yet.
    names = {name for each in listed for name in each.get("names") or ()}
    return names.isdisjoint(_names(image))


def importing(image: str, node: Object, *flags: str) -> str:
    """The command that imports an image on a node's machine; the reader replaces FILE."""
    folder = node.annotations.get(DATA_FOLDER, USUAL_DATA_FOLDER)
    where = ("--data", shlex.quote(folder)) if folder != USUAL_DATA_FOLDER else ()
    return " ".join(("pilothouse image import", short_name(image), "FILE", *flags, *where))


def short_name(image: str) -> str:
    """The name and tag of an image, whatever its registry."""
    name, tag, _ = _parts(image)
    return f"{name.rpartition('/')[2]}:{tag}"


def _names(image: str) -> tuple[str, ...]:
    """What a node that has the image lists, at least one of them."""
    name, tag, digest = _parts(image)
    end = f"@{digest}" if digest else f":{tag}"
    return f"{name}{end}", f"{name.rpartition('/')[2]}{end}"


def _parts(image: str) -> tuple[str, str, str]:
    """Name, tag and digest."""
    rest, _, digest = image.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # What follows the colon of a port is a path.
        name, tag = rest, "latest"
    return name, tag, digest
