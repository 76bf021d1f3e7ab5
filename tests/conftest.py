"""What every suite shares: the choice of API servers to test against, and figures told at the end."""

pytest_plugins = ["tests.kit.targets", "tests.kit.telling"]
