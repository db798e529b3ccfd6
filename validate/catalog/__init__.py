"""The catalog of rules: ``rule_catalog`` finds them, ``run_rules`` runs them, ``manual_pages`` prints their pages."""
