"""How containers get their cards and are kept within their share: one file per back-end."""
