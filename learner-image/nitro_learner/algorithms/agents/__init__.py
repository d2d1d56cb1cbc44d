"""What the algorithms of several agents share: teams, stacked networks, and grouped policies."""
