"""The version of wdsflow."""

__version__ = "0.1.0"
