"""Waiting pods: records, queues, backoffs, pod groups, reports."""
