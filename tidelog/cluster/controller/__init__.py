"""The controller's commands: each takes an image and a request, and answers records and a reply."""
