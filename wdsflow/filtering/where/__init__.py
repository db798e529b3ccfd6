"""The predicate of `wdsflow filter`: a small typed language with three-valued logic and a plan for its evaluation.

What holds:

* **Order**: which samples are kept, dropped and put aside does not depend on the order in which scores are computed.
  A sample is dropped if a term is false, whatever the others are, kept if all are true, else unknown for good.
  For that, a value must not depend on what was computed before: scores that compare samples go last, over a set of
  samples that no order decides.
* **Name**: the deciding term is the one that the plan stops at; a plan is fixed by the predicate and the costs given.
* **Nothing is not enough**: a score that failed, a list without entries, NaN and a division by zero are unknown.
* **Form**: ``parse(str(where)) == where``.
"""

from .explain_plan import explain
from .known_facts import FACTS
from .pilot_order import Pilot, pilot_from_json, pilot_of, plan_by
from .predicate import Judgement, Term, Where, parse, parse_score
from .predicate_errors import WhereError
from .predicate_planner import Plan, PlanStep, plan
from .values import PENDING, Call, Unknown, Value

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
