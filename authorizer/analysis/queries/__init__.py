"""Queries of one set of ACLs: who can, what can, deciding ACLs and expectations."""
