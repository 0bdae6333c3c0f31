"""How pods ask for GPUs: one file per vendor convention, request in, vendor annotations out."""
