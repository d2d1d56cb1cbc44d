"""Training data: fragments, batches, frame stacks and advantage estimates."""
