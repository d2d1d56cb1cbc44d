"""Checking an environment before training: its process, and what a job's user is told of it"""
