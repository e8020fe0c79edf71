"""One study per file: what it needs, its options, what it computes and its figures."""
