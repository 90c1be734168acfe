"""What works with what: every case of the tables in docs/support, run for a few draws or refused as they say."""
