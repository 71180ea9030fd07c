"""What agents log of their sessions: where it lies, and the conversations in it. Read, never written."""
