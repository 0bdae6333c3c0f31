"""Controllers of volumes and device claims: what binds, makes, releases and protects them."""
