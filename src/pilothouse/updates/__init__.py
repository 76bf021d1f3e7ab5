"""Payloads: channels, the update server, verified downloads, observers.

What reaches out of the cluster on behalf of plans and update configs is here; controllers decide on what it
writes into a status. It does not know nodes, controllers, pilots or the API server: it meets them in objects,
and ``app`` composes them.

plan_observer, plan_checks, readiness_probe
                    answers the questions of the Plan that runs
control_node_registration
                    registers a machine of the control plane
channel_observer, channel_source
                    answers the checks of UpdateConfigs; ``update_prober`` asks where there is none
channel_client, channel_index, tuf_channel, http_fetch
                    how channels are asked and read; ``cluster_facts`` is what servers learn
downloads, download_requests, partial_download
                    how machines get payloads; ``payload_trust`` and ``trusted_comments`` say which
publishing, publishing_keys, tuf_repository
                    how versions are published
update_server       serves them; ``cluster_registry`` keeps which clusters asked
"""
