"""What there is: suites, backends and metrics, and the data that suites bring along."""
