"""Who asks: a bearer token's principal, else the connection's.

Tokens are those of a file of hashes (``stored_tokens``, ``tokens_file``) or an issuer's JSON Web Tokens
(``oidc``, by the keys of ``key_set``). Requests are put to the ``authenticator``: it remembers tokens that it
has seen, and bounds what others cost. A token that is wrong is a 401, whatever else is known of the caller.
"""
