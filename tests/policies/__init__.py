"""What the admission policies that are shipped refuse, and what they let through."""
