"""From scores to outcomes: which samples are kept, dropped or set aside."""
