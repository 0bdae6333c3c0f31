"""What is placed: reserve, bind, hold, and what others did."""
