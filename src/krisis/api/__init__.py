"""The verbs of the core: what asks, keeps, reads, scores, certifies and verifies a run.

They are imported from the package itself (``krisis.score``); each module holds those that need the
same parts of krisis, so that a verb loads no more than it uses.
"""
