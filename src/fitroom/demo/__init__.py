"""What ``fitroom demo`` runs: a training as a user would write it, in a process of its own."""
