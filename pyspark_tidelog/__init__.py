"""Found by PySpark, which looks for packages of this name: makes `format("tidelog")` known by itself."""
