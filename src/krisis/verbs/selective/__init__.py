"""How well confidence ranks the answers of one run, or of two runs compared."""
