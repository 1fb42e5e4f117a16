"""The login of a client with OAUTHBEARER: where its token comes from, and when it is replaced."""
