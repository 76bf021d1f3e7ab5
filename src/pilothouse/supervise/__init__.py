"""Child processes done right: containers that are processes, their view of the machine, their limits, their end.

    container = await start(folder, LaunchSpec(argv=("redis-server",), log=LogPolicy(str(folder / "log"))))
    exit = await container.stop(signal.SIGTERM, grace=30)

Knows processes, namespaces, cgroups and files; nothing of pods, nor of any API. A container belongs to its *shim*, a small
process that outlives whoever asked for it: the one who comes next adopts the container from its folder.
"""
