"""What every suite shares: the choice of API servers to test against, an order, surroundings, figures and skips told at the end, and a quick one."""

pytest_plugins = [
    "tests.kit.surroundings",
    "tests.kit.targets",
    "tests.kit.run_report",
    "tests.kit.skips",
    "tests.kit.start_order",
    "tests.kit.worker_exit",
]
