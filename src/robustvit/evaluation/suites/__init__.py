"""What can be measured: one family of suites per file."""
