"""What every suite shares: the choice of API servers to test against."""

pytest_plugins = ["tests.kit.targets"]
