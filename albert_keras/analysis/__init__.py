"""What a configuration costs, what a folder holds, and what a model does in each of its layers."""
