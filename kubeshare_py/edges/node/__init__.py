"""On a GPU node: the driver, the MPS daemon, the collector's page."""
