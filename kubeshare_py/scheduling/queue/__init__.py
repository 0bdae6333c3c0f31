"""What waits: records of pods, queues, backoffs, pod groups, reasons."""
