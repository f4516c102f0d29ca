"""Vocabulary of the authorizer: KIP-504's interface, results, errors, addresses and release rules."""
