"""The default storage classes of a control plane on one machine.

``directory``, the default, is a folder of the node; ``loop`` a filesystem of the claim's size in a file. They
are created once: users may change or delete them.
"""

from __future__ import annotations

import json
from typing import Any

from pilothouse.app.data_folder import DataFolder
from pilothouse.client.kubeconfig import load
from pilothouse.client.single_request import RequestFailed, send_request
from pilothouse.pki.private_files import write_private

_MADE = "classes-made"
_PATH = "/apis/storage.k8s.io/v1/storageclasses"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def create_default_classes(folder: DataFolder) -> None:
    """Raises ``RequestFailed``."""
    mark = folder.path / _MADE
    if mark.exists():
        return
    access = load(folder.admin_kubeconfig)
    for body in CLASSES:
        try:
            with send_request(
                access, _PATH, {}, agent="pilothouse-up", method="POST", body=json.dumps(body).encode()
            ):
                continue
        except RequestFailed as refusal:
            if refusal.status != 409:
                raise
    write_private(mark, b"the default storage classes were created; they are not created again\n")


def _storage_class(name: str, *, default: bool) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, **({"annotations": {_DEFAULT: "true"}} if default else {})},
        "provisioner": f"pilothouse.io/{name}",
        # The volume is provisioned on the node of the pod that uses it.
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


CLASSES = (_storage_class("directory", default=True), _storage_class("loop", default=False))
