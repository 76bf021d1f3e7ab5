"""Containers as processes: namespaces, control groups, logs, exit codes.

    container = await start(folder, LaunchSpec(argv=("redis-server",), log=LogPolicy(str(folder / "log"))))
    exit = await container.stop(signal.SIGTERM, grace=30)

The package knows nothing of pods, nor of any API. Each container is a child of its *shim*, a small process
that outlives the agent; the next agent adopts the container from its directory.
"""
