"""What UniRL starts as its own reward server, in place of unirl-reward-service."""
