"""The controller's commands: each takes an image and a request, and returns records and a reply."""
