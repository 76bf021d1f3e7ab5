"""The annotation that keeps a cluster from being deleted, by name or with all others."""

from __future__ import annotations

import pytest
from tests.api.navigator.clusters import elasticsearch
from tests.kit.core import CoreServer

ALL = "/apis/navigator.jetstack.io/{version}/namespaces/default/elasticsearchclusters"
KEY = "navigator.jetstack.io/protect-from-deletion"


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_a_protected_cluster_goes_only_after_it_was_freed(version: str) -> None:
    everyone = ALL.format(version=version)
    with CoreServer() as server:
        # Its spec says nothing that only one of the versions knows.
        tree = {
            "apiVersion": f"navigator.jetstack.io/{version}",
            "kind": "ElasticsearchCluster",
            "metadata": {"name": "demo", "annotations": {KEY: "true"}},
            "spec": elasticsearch(),
        }
        assert server.send("POST", everyone, tree).status == 201
        refused = server.send("DELETE", f"{everyone}/demo")
        assert refused.status == 403
        assert KEY in refused.json["message"]
        assert server.send("DELETE", everyone).status == 403
        found = server.send("GET", f"{everyone}/demo").json
        assert "deletionTimestamp" not in found["metadata"]
        found["metadata"]["annotations"][KEY] = "false"
        assert server.send("PUT", f"{everyone}/demo", found).status == 200
        assert server.send("DELETE", f"{everyone}/demo").status == 200
        assert server.send("GET", f"{everyone}/demo").status == 404


def test_a_namespace_with_a_protected_cluster_is_not_deleted_either() -> None:
    everyone = "/apis/navigator.jetstack.io/v1beta1/namespaces/shop/elasticsearchclusters"
    with CoreServer() as server:
        for name in ("shop", "other"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            server.send("POST", "/api/v1/namespaces", body).expect(201)
        tree = {
            "apiVersion": "navigator.jetstack.io/v1beta1",
            "kind": "ElasticsearchCluster",
            "metadata": {"name": "demo", "annotations": {KEY: "true"}, "finalizers": ["example.com/hold"]},
            "spec": elasticsearch(),
        }
        server.send("POST", everyone, tree).expect(201)
        refused = server.send("DELETE", "/api/v1/namespaces/shop")
        assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
        assert 'elasticsearchclusters.navigator.jetstack.io "demo"' in refused.message
        assert KEY in refused.message
        assert server.send("GET", "/api/v1/namespaces/shop").json["status"]["phase"] == "Active"
        assert server.send("DELETE", "/api/v1/namespaces/other").status == 200

        for value in ("false", "true"):
            found = server.send("GET", f"{everyone}/demo").json
            found["metadata"]["annotations"][KEY] = value
            server.send("PUT", f"{everyone}/demo", found).expect(200)
            # To protect what is going already comes too late: nobody can call that back.
            assert server.send("DELETE", f"{everyone}/demo").status == 200
        assert server.send("DELETE", "/api/v1/namespaces/shop").json["status"]["phase"] == "Terminating"
