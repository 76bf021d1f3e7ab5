"""What a Node says of the images that it has, and which image a reference means there.

    lacks(node, "docker.elastic.co/elasticsearch/elasticsearch:8.17.0")     # True if the node fetches nothing and has none

Only nodes of ours are known to lack an image: others fetch what they don't have.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.objects import Object

DATA_FOLDER: Final = "pilothouse.io/data-folder"
"""The annotation of a Node with the folder that ``pilothouse image import --data`` takes on its machine."""
MOST_IMAGES: Final = 50
"""How many images a Node lists, the largest, as with kubelet."""
USUAL_DATA_FOLDER: Final = "/var/lib/pilothouse"
_RUNTIME: Final = "pilothouse://"
_HOST: Final = "host/"


def lacks(node: Object, image: str) -> bool:
    """Whether a node certainly does not have an image, and does not fetch it either."""
    runtime = str(node.at("status", "nodeInfo", "containerRuntimeVersion") or "")
    listed = node.status.get("images") or ()
    if not runtime.startswith(_RUNTIME) or image.startswith(_HOST) or len(listed) >= MOST_IMAGES:
        return False
    if DATA_FOLDER not in node.annotations:
        return False  # An agent that does not list its images yet.
    names = {name for each in listed for name in each.get("names") or ()}
    return names.isdisjoint(_names(image))


def importing(image: str, node: Object, *flags: str) -> str:
    """The command that brings an image to a node, typed on its machine; FILE is for the reader to replace."""
    folder = node.annotations.get(DATA_FOLDER, USUAL_DATA_FOLDER)
    where = ("--data", folder) if folder != USUAL_DATA_FOLDER else ()
    return " ".join(("pilothouse image import", short_name(image), "FILE", *flags, *where))


def short_name(image: str) -> str:
    """The name and tag under which an image is found whatever its registry."""
    name, tag, _ = _parts(image)
    return f"{name.rpartition('/')[2]}:{tag}"


def _names(image: str) -> tuple[str, ...]:
    """What a node that has the image lists, one of them at least."""
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
