"""Cards that HAMi's device plugins register on their Nodes, and whether these plugins live."""
