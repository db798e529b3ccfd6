"""The predicate of `wdsflow filter`: a small typed language with three-valued logic and a plan for its evaluation.

Guarantees:

* **Order**: the order in which scores are computed does not change which samples are kept, dropped and quarantined.
  A sample is dropped if any term is false, kept if all are true, and otherwise unknown.
  Therefore a value must not depend on earlier values: scores that compare samples come last, over a set of samples
  that does not depend on the order.
* **Name**: the deciding term is the term at which the plan stops; predicate and costs determine the plan.
* **Unknown**: a failed score, a list without entries, NaN and a division by zero are unknown.
* **Form**: ``parse(str(where)) == where``.
"""
