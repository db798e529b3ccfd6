"""A package, so that its tests share a browser: the fixture ``chromium`` ends with it."""
