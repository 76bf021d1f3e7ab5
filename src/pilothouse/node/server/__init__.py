"""The node's own server: what runs here, for those who ask for it from afar.

Its paths are a kubelet's, so that a real kube-apiserver finds its way as ours does. Who may ask for what is the API server's
to say: certificates are checked against its authority, tokens and rights are asked of it. Nothing is changed here but
what somebody types into a container.
"""
