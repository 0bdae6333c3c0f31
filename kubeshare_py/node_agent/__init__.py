"""What a node's agents make of what drivers say: judgement, without asking anything."""
