"""Numbers of few digits, for thresholds that a person reads and types."""

import math
from decimal import ROUND_CEILING, Decimal


def roundest(low: float, high: float) -> float:
    """Return the number of fewest digits that is at least ``low`` and below ``high``.

    >>> roundest(0.2345, 0.2891), roundest(180.0, 320.0), roundest(-1.0, 1.0), roundest(3.0, 4.0)
    (0.25, 200.0, 0.0, 3.0)
    """
    if not (math.isfinite(low) and math.isfinite(high)) or low <= 0 < high:
        return 0.0 if low <= 0 < high else low
    first = math.floor(math.log10(max(abs(low), abs(high))))
    for exponent in range(first, first - 18, -1):
        for unit in (5, 2, 1):
            step = Decimal(unit).scaleb(exponent)
            found = float((Decimal(repr(low)) / step).to_integral_value(ROUND_CEILING) * step)
            if low <= found < high:
                return found
    return low


def roundest_after(below: float, value: float) -> float:
    """Return the number of fewest digits that is greater than ``below`` and at most ``value``.

    >>> roundest_after(0.281234, 0.283456), roundest_after(-1.55, -1.5499), roundest_after(9.7, 10.2)
    (0.282, -1.5499, 10.0)
    """
    return 0.0 - roundest(-value, -below)


def number_text(number: float) -> str:
    """Return a number as predicates have it.

    >>> number_text(200.0), number_text(0.25), number_text(-3.0), number_text(1e-07)
    ('200', '0.25', '-3', '1e-07')
    """
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(float(number))
