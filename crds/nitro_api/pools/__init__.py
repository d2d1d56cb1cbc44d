"""How many pods of a pool are awake, asleep or gone, by what each costs: pure functions of time and need."""
