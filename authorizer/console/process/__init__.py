"""The console's own process, and the proxy to it."""
