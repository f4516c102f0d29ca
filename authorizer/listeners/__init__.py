"""Listeners, for any protocol: sockets, TLS, the identity of a peer, limits of connections."""
