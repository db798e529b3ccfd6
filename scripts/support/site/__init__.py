"""The documentation site: Sphinx's settings, the build, and a check of all links."""
