"""What the admission policies of deploy/policies refuse, and what they let through."""
