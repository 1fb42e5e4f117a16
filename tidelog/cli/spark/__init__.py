"""`tidelog spark`: Spark jobs over topics."""
