"""From a request to its response: dispatch, one handler file per API, and error responses."""
