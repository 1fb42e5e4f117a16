"""`make demo`: real text through a real broker and three clients, compared byte for byte."""
