"""What is measured, and how; the figures are in RESULTS.md."""
