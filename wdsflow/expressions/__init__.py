"""Expressions over the scores of samples: a condition that keeps some, a number that ranks them.

An expression is written in Python's syntax, parsed by ``ast`` and evaluated by DuckDB. It is never
run as Python, and no text of a user reaches DuckDB as SQL.

* **Three values.** A condition is true, false or unknown. A missing value makes a condition unknown
  if it may decide it: ``blur > 10 or width > 100`` is true for a wide image that cannot be decoded.
* **Order.** The order in which scores are computed changes the work, never the result. What is
  decided by some scores stays the same when others become known.
* **Several items.** A score of a sample with several images or captions has a value for each. A
  condition holds if it holds for each; ``any()``, ``all()``, ``min()``, ``max()`` and ``mean()``
  speak of the items.
* **Form.** ``parse(str(expression), catalog) == expression``.
"""
