"""The life of a pod as a pure machine: ``(what is known, now) -> (what to do, why it waits)``. No I/O, no clock.

roles        which containers a pod has: init containers, sidecars, main ones
instances    one run of a container's program
knowing      what is known of a pod and its containers at one moment
restarting   who is started again, and after how long
judging      what the results of probes add up to
ending       in which order containers stop, and how much of the grace each has
deciding     the decision: acts, reasons to wait, and when to look again
"""
