"""`tidelog user`, `acl`, `token` and `quota`: credentials, permissions and limits of clients."""
