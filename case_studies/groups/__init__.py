"""Effects of groups: seizures of patients, children who wheeze, and aggression, beside NUTS and published fits."""
