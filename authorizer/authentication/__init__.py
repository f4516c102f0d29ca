"""Authentication for any protocol: verification of secrets and tokens, and limits on its cost.

An issuer's tokens (``issuer``), files of hashed secrets (``secrets_file``, ``scram``), values that are
reloaded when they change (``reloading_value``), fair queues for slow checks (``fair_places``) and the rate
limit of failures (``failure_rate_limit``).
"""
