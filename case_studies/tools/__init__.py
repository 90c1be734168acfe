"""What the case studies share: a resumable grid of cells, and the summaries that the articles print."""
