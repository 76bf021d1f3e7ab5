"""The shim: the small process that is a container's parent, and holds its log, exit code and lock.

    python -I -S -c "...; from pilothouse.supervise.shim.shim_main import main; main()" FOLDER < launch

One shim runs for each container, so it uses only what a bare interpreter has in memory: built-in and C
modules of the standard library, nothing of ours outside this package, no json, typing, enum, subprocess or
asyncio. Nothing is imported late: an upgrade may replace the files meanwhile, or the view's root may hide
them.
"""
