"""A process: its log, its signals, its child processes, files and probes."""
