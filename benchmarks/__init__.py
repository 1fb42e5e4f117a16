"""What Tidelog is measured by, each beside a reference in the same run."""
