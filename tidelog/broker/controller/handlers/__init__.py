"""The handlers of the APIs that a controller serves on its listeners, one file per API."""
