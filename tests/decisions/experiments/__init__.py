"""What an experiment has shown, against published values and sums made by hand."""
