"""Which of several processes decides: the rules, without a clock and without a client."""
