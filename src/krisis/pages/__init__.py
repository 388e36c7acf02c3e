"""What krisis shows: documents, the verdict, numbers, and a renderer per medium."""
