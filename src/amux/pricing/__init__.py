"""Prices: the rates of a model on a day, and the cost of tokens at these rates."""

from __future__ import annotations

from amux.pricing.rates import Rates, RateTier, TokenRates, cost_nusd
from amux.pricing.registry import ModelPrice, ModelRegistry

__all__ = ["ModelPrice", "ModelRegistry", "RateTier", "Rates", "TokenRates", "cost_nusd"]
