"""Texts of quantities, and what apimachinery's ParseQuantity makes of them."""
