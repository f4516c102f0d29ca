"""Authentication for any protocol: verification of secrets and tokens, and limits on its cost."""
