"""The pod lifecycle as pure functions: ``decide(pod state, now) -> actions, waiting reasons``.

container_roles       the containers of a pod: init containers, sidecars, main containers
container_instances   one run of a container's program
pod_state             the state of a pod and its containers at one moment
restart_policy        which containers restart, and their back-off
probe_results         thresholds: from single probe results to a verdict
termination           the order in which containers stop, and their grace periods
pod_decision          the decision itself
"""
