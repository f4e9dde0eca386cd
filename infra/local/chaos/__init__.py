"""Faults on purpose, for ``spotgrad local run --chaos``: on the real code path, by a seeded dice.

Everything injected is something that AWS may do: nothing here drops an acknowledged write or a
message, so a job that is built right ends as if nothing had happened.
"""
