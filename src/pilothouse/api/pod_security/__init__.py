"""Pod Security Standards: what a pod may ask for at each level.

    policy, problems = policy_of({"pod-security.kubernetes.io/enforce": "baseline"}, PRIVILEGED_POLICY)
    evaluate(policy.enforce, pod["metadata"], pod["spec"]).detail      # 'hostPath volumes (volume "data")'

Pure functions of labels and pods; exemptions and enforcement are in ``apiserver.admission.pod_security``.
Checks, versions and texts are those of Kubernetes 1.33, plus a check of ``hostUsers``.
"""
