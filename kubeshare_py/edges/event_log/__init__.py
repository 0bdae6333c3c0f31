"""Event logs as files: written beside the decisions, and read again."""
