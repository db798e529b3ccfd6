"""Certificates: which bytes were judged, and with what result; and Croissant metadata."""
