"""What a configuration costs, what a folder holds, and what a model does in each of its layers."""

from albert_keras.analysis.costs import Costs, costs_of
from albert_keras.analysis.parameters import bert_of, parameters_of
from albert_keras.analysis.setting import Setting

__all__ = ["Costs", "Setting", "bert_of", "costs_of", "parameters_of"]
