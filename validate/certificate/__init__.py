"""Certificates: which bytes were judged, with what result, and whether they are still the same."""
