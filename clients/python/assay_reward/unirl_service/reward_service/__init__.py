"""Started by UniRL as its reward server, instead of unirl-reward-service."""
