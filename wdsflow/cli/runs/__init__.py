"""What filter, measure, merge and scores print about runs.

Progress, a forecast, the summary, and the values in a ledger.
"""
