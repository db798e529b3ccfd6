"""The catalog of rules.

``rule_catalog`` finds the rules, ``run_rules`` runs them, and ``manual_pages`` prints their pages.
"""
