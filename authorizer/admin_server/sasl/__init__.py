"""SASL as a broker speaks it: the mechanisms, and the states of a connection (SaslServerAuthenticator)."""
