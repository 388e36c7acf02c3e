"""PHQ-8 item scoring from interviews: cohort, transcripts, retrieval and the suite."""
