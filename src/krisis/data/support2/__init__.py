"""Seriously ill adults of the study SUPPORT, with what became of them and what doctors foresaw."""
