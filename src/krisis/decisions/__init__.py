"""From a measured run to a decision: verbs over results and their metrics."""
