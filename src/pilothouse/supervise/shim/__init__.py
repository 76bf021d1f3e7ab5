"""The small process between a container and everyone else: it owns the log, the exit code and the lock.

    python -I -S -c "...; from pilothouse.supervise.shim.shim_main import main; main()" FOLDER < launch

One runs for every container on a machine, for as long as the container does, so it is kept to what a bare interpreter
already has in memory: built-in and C modules of the standard library, nothing of ours outside this package, no json, typing,
enum, subprocess or asyncio. Nothing is imported late either: the files may be replaced by an upgrade meanwhile, or be out
of sight behind the view's new root.
"""
