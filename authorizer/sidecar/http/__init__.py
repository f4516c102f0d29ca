"""HTTP server: listeners, TLS, protocol, limits, errors as JSON."""
