"""Text files -> chunk records -> (in graph, anew in each epoch) masked segment pairs."""
