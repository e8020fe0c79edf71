"""What an evaluation found, as one self-contained HTML page."""
