"""The console process, and the proxy to it."""
