"""From scores to outcomes: which samples are kept, dropped or quarantined."""
