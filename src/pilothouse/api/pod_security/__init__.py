"""Pod Security Standards: what a pod may ask for at the levels ``privileged``, ``baseline`` and ``restricted``.

    policy, problems = policy_of({"pod-security.kubernetes.io/enforce": "baseline"}, PRIVILEGED_POLICY)
    evaluate(policy.enforce, pod["metadata"], pod["spec"]).detail      # 'hostPath volumes (volume "data")'

Pure functions of labels and pods. Who is exempt, what becomes of a violation and how it is counted is the API server's part
(``apiserver.pod_security``). Checks, versions and texts are those of Kubernetes 1.33, so that the same manifest gets the same answer; the one
check that Kubernetes does not have is ``hostUsers``.
"""
