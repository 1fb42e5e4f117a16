"""Authorization: which principal may perform which operation on which resource."""
