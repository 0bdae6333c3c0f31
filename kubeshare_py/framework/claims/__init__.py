"""What a claim needs of GPUs, compared on columns: for plugins and for the core."""
