"""What builds the documentation site; it is no part of the package."""
