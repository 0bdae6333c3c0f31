"""On a GPU node: the driver, the MPS daemons, the collector's page."""
