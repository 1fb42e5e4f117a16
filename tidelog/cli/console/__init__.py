"""The console: one web page that shows a cluster."""
