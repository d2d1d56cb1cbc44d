"""Pools of workers: tasks are tried, timed, billed and gathered, whatever they compute."""
