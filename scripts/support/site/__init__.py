"""The documentation site: Sphinx's settings, the build, and a check of all links in the pages that it wrote."""
