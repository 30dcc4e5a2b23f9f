"""What every test can use. The fixtures themselves live under `support/`, by subject."""

pytest_plugins = ["support.postgres.plugin", "support.suite_times"]
