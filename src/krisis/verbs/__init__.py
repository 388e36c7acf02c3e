"""The verbs of krisis: what the command line does, as functions with typed results.

They are imported from the package itself (``krisis.score``); each module here holds those that
need the same parts of krisis, so that a verb loads no more than it uses.
"""
