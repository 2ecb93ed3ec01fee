"""Figures of the product on a real control plane, beside what the same machine gives bare.

`python -m bench` brings up a plane, measures in rounds, prints every figure with its spread and ends
by itself, bounded in count and time. Nothing here is imported by the product; what a figure means
and what it was lies in `docs/performance.md`.

figures, stats → values, pure; stage → plane, product, catalogue, tenants; watching → when a claim was
seen Bound; house, model → the model alone; lone, lag → the process alone; scrape → counters of our process and kube-apiserver; orders, reads, bare, passes, waiting → one
question each; report → for people and as JSON.
"""
