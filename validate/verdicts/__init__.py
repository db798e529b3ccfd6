"""From evidence to verdicts: which samples pass, which are lost, and how that is reported."""
