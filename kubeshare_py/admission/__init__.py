"""What a new pod is patched with: a JSON patch for the webhook, CEL for admission policies."""
