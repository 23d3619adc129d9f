"""The suite's own settings: the plugin is tested through ``pytester``, as a user runs it."""

pytest_plugins = ["pytester"]
