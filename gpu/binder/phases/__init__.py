"""PASS: the ordered table of phases and when each runs; the order is the design."""
