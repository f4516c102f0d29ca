"""Decisions: the answer, its reason, and what is written down and counted of them."""
