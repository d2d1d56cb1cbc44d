"""How good the statistics are that scalers decide by: how reliable, and whether they tell what actors buy."""
