"""Bars on a logarithmic scale, in groups, as SVG. The same input gives the same bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

_INK, _PAPER, _LINE = "#1f2430", "#fbfbfd", "#c9cede"
_COLORS = ("#9aa3b8", "#c0392b", "#3f51b5", "#2e8b57", "#b8860b")
_LEFT, _WIDTH, _BAR, _GAP, _HEAD, _FOOT = 190, 760, 18, 34, 44, 46


def svg(groups: Mapping[str, Mapping[str, float]], title: str) -> str:
    """Return a picture of positive numbers by group and name; all groups have the same names, at most five."""
    values = [value for bars in groups.values() for value in bars.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = (_WIDTH - _LEFT - 90) / max(high - low, 1)
    height = _HEAD + sum(len(bars) * _BAR + _GAP for bars in groups.values()) + _FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{height}" fill="{_PAPER}"/>',
        _text(16, 26, title, "bold"),
    ]
    for power in range(low, high + 1):
        x = _LEFT + (power - low) * scale
        parts.append(f'<line x1="{x:.1f}" y1="{_HEAD}" x2="{x:.1f}" y2="{height - _FOOT}" stroke="{_LINE}"/>')
        parts.append(_text(x, height - _FOOT + 18, f"{10.0**power:g}", anchor="middle"))
    y = _HEAD
    for group, bars in groups.items():
        parts.append(_text(16, y + 20, group, "bold"))
        y += _GAP - 8
        for color, (name, value) in zip(_COLORS, bars.items(), strict=False):
            length = (math.log10(value) - low) * scale
            parts.append(_text(_LEFT - 8, y + 13, name, anchor="end"))
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR - 4}" fill="{color}"/>')
            parts.append(_text(_LEFT + length + 6, y + 12, f"{value:.2f}"))
            y += _BAR
        y += 8
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, words: str, weight: str = "normal", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="12" font-weight="{weight}" fill="{_INK}">{escape(words)}</text>'
