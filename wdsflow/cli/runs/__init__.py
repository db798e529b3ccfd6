"""What filter, measure, merge and scores print about runs: progress, a forecast, the summary, values in a ledger."""
