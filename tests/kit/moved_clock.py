"""Runs a command of `pilothouse` on a machine whose clock is ahead by so many seconds.

python -m tests.kit.moved_clock 3600 controller-manager --kubeconfig FILE

Only the wall clock of that process is moved. A clock that is to be moved again is that of its next start.
"""

from __future__ import annotations

import sys
import time

from pilothouse.cli import main

if __name__ == "__main__":
    ahead = float(sys.argv.pop(1))
    real = time.time
    time.time = lambda: real() + ahead
    main()
