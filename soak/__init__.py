"""Soak: a simulated cluster in one process, the binder on it, faults, and a judge who knows the truth.

Development only, never shipped. It stands on the fakes of `tests/`.
"""
