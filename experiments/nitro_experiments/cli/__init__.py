"""The subcommands that this package adds to `nitro`: one module for each."""
