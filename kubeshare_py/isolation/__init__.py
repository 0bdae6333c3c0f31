"""How containers are told their cards and held to their share: one file a back-end."""
