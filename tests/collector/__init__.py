"""The collector on boards of the fake driver, and on real cards where there are any."""
