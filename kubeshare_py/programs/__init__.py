"""One page per process: pure rooms wired to edges in one TaskGroup."""
