"""Classes from several sources of features: tables and figures of the article again, on data that are public."""
