"""Pod Security Standards: what a pod may ask for at each of their levels.

    policy, problems = policy_of({"pod-security.kubernetes.io/enforce": "baseline"}, PRIVILEGED_POLICY)
    evaluate(policy.enforce, pod["metadata"], pod["spec"]).detail      # 'hostPath volumes (volume "data")'

Pure functions of labels and pods. The API server's part (``apiserver.admission.pod_security``) is who is exempt, what
follows from a violation and how it is counted. Checks, versions and texts are those of Kubernetes 1.33, so that
the same manifest gets the same answer. The one check that Kubernetes does not have is ``hostUsers``.
"""
