"""Names the fixture plugins."""

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.sandbox"]
