"""The API server beside a real kube-apiserver, a bare aiohttp server and raw etcd, under the same load.

    python -m bench.api                         # the whole table, a quarter of an hour
    python -m bench.api --quick                 # the same table, rougher
    python -m bench.api --only get --only patch --kind widgets

All servers run at once on this machine and take turns: each round asks every contender once, for a short while, and a
figure is the median of the rounds. Load comes from separate processes (wrk, and our own for watches and etcd), over
TLS with kept-alive connections. `contenders` are measured by `measures`; `plan` says which, and what we aim at.
"""
