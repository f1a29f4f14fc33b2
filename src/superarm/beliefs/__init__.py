"""What is believed about the weights of items."""
