"""The scheduler's view of the cluster: columns of nodes and cards, and the ledger of charges."""
