"""What people see in a terminal: tables, trees, the live view."""
