"""Models of the weights of items, and their posteriors."""
