"""The predicate of `wdsflow filter`: a small typed language with three-valued logic and a plan for its evaluation.

Guarantees:

* **Order**: the order in which scores are computed does not change which samples are kept, dropped and quarantined.
  A sample is dropped if a term is false, whatever the others are, kept if all are true, and otherwise unknown.
  Therefore a value must not depend on earlier values: scores that compare samples come last, over a set of samples
  that does not depend on the order.
* **Name**: the deciding term is the term at which the plan stops; predicate and costs determine the plan.
* **Unknown**: a failed score, a list without entries, NaN and a division by zero are unknown.
* **Form**: ``parse(str(where)) == where``.
"""

from wdsflow.filtering.where.predicate_planner import explain
from wdsflow.filtering.where.tokens import WhereError
from wdsflow.filtering.where.values import PENDING, Call, Unknown, Value

from .known_facts import FACTS
from .predicate import Judgement, Term, Where, parse, parse_score
from .predicate_planner import Pilot, Plan, PlanStep, pilot_from_json, pilot_of, plan, plan_by

__all__ = [
    "FACTS",
    "PENDING",
    "Call",
    "Judgement",
    "Pilot",
    "Plan",
    "PlanStep",
    "Term",
    "Unknown",
    "Value",
    "Where",
    "WhereError",
    "explain",
    "parse",
    "parse_score",
    "pilot_from_json",
    "pilot_of",
    "plan",
    "plan_by",
]
