"""What rules can watch, one file a kind, named as the kind's value; none knows another."""
