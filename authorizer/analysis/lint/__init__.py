"""Findings in a set of ACLs: removable, ineffective and suspicious ACLs."""
