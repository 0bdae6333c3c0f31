"""Which cards exist: samples and files to domain cards, and what changed."""
