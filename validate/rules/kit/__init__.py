"""Code that rules share: base classes, their input, and questions about samples."""
