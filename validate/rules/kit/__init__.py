"""Code that rules share: their base class, their input, and how they run."""
