"""What every test can use. The fixtures themselves live under `support/`, by subject."""

from hypothesis import settings

pytest_plugins = [
    "support.scratch",  # first: the others make directories
    "support.postgres.plugin",
    "support.databases",
    "support.scenarios.engine_fixtures",
    "support.suite_times",
    "support.fault_counts",
]

# A busy machine is not a bug: examples have no time limit of their own, the whole test has (pytest-timeout).
# A failure prints what is needed to repeat it elsewhere.
settings.register_profile("project", deadline=None, print_blob=True)
settings.load_profile("project")
