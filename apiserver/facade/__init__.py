"""The facade: the host's `core.cozystack.io` with our sources among its options (`hostOptions: facade`).

Everything but `options` is the host's and goes to it and back as it is; see decisions and docs/api.md.
"""
