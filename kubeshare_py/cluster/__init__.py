"""What we believe about the cluster: columns of nodes and cards, and the ledger of charges."""
