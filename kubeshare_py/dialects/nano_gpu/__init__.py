"""nano-gpu, later elastic-gpu: containers that ask for percents and memory of cards."""
