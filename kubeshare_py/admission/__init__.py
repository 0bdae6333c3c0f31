"""How new pods are patched: a JSON patch for the webhook, CEL for admission policies."""
