"""How many cases a property test draws: few in the gate, many in ``scripts/test deep``."""

from hypothesis import settings


def cases(gate: int) -> settings:
    """For a test whose cases are slow: ``gate`` cases in the gate, 20 times as many in the deep run."""
    return settings(max_examples=gate * (1 if settings.get_current_profile_name() == "gate" else 20))
