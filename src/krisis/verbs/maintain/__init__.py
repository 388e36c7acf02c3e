"""What keeps runs in order: repair, provider batches, the reply cache, and what is downloaded."""
