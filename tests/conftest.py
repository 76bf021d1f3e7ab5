"""What every suite shares: the choice of API servers to test against, an order, figures and skips told at the end, and a quick one."""

pytest_plugins = [
    "tests.kit.targets",
    "tests.kit.telling",
    "tests.kit.skips",
    "tests.kit.ordering",
    "tests.kit.ending",
    "tests.kit.surroundings",
]
