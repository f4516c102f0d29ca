"""The sidecar: decisions, state, health and metrics over HTTP.

An ASGI application with Starlette's routing, on uvicorn. Source of the API: AuthZEN Authorization API 1.0
for ``/access/v1``; docs/http.md for the rest.
"""
