"""Authentication of HTTP callers: by a bearer token, else by the connection.

A token's hash is in a file (``stored_tokens``), or the token is an issuer's JSON Web Token
(``authorizer.authentication``). ``authenticator`` caches verified tokens and limits the cost of others. The
answer to an invalid token is 401, even if the connection identifies the caller.
"""
