from __future__ import annotations

from tests.kit.core import CoreServer


def test_selinux_options_of_a_pod_are_taken_with_a_warning(server: CoreServer) -> None:
    core = "/api/v1/namespaces/default"
    server.send("POST", f"{core}/serviceaccounts", {"metadata": {"name": "default"}})
    container = {"name": "c", "image": "i", "securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}}}
    pod = {"metadata": {"name": "labelled"}, "spec": {"containers": [container]}}
    made = server.send("POST", f"{core}/pods", pod)
    assert made.status == 201, made.message
    assert [each for each in made.warnings if "SELinux" in each] == [
        "spec.containers[0].securityContext.seLinuxOptions: nodes set no SELinux labels: ignored, as kubelet does "
        "where the machine has no SELinux"
    ]
    stored = server.send("GET", f"{core}/pods/labelled").expect(200)
    assert stored["spec"]["containers"][0]["securityContext"] == container["securityContext"]
