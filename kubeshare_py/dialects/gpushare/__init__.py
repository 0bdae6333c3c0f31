"""gpushare: pods that ask for units of one card's memory by an extended resource."""
