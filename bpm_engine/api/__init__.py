"""What a user calls, by subject. `Engine` gathers it; each object here speaks for one tenant."""
