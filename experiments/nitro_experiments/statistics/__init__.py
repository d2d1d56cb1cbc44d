"""Statistics: from what runs measured to what a report tells, with the uncertainty that few seeds leave."""
