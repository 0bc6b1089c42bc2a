"""Triangles into a picture, the nearest on top."""

from __future__ import annotations

from math import ceil, floor

from numba import njit


@njit(cache=True)
def paint_triangles(picture, nearest, corners, colours, opacity):
    """Paint triangles into a picture (h, w, 3), in place, where nothing painted before is nearer.

    Args:
        picture: colours, 0 to 255.
        nearest: depth of what has been painted, (h, w), larger values nearer; grows where opacity is 1.
        corners: (n, 3, 3): row, column and depth of each corner.
        colours: (n, 3).
        opacity: of all of them.
    """
    height, width = nearest.shape
    for t in range(len(corners)):
        r0, c0, d0 = corners[t, 0, 0], corners[t, 0, 1], corners[t, 0, 2]
        r1, c1, d1 = corners[t, 1, 0], corners[t, 1, 1], corners[t, 1, 2]
        r2, c2, d2 = corners[t, 2, 0], corners[t, 2, 1], corners[t, 2, 2]
        area = (r1 - r0) * (c2 - c0) - (r2 - r0) * (c1 - c0)
        if area == 0.0:
            continue
        top, bottom = max(0, floor(min(r0, r1, r2))), min(height, ceil(max(r0, r1, r2)) + 1)
        left, right = max(0, floor(min(c0, c1, c2))), min(width, ceil(max(c0, c1, c2)) + 1)
        for i in range(top, bottom):
            for j in range(left, right):
                y, x = i + 0.5, j + 0.5
                w1 = ((y - r0) * (c2 - c0) - (r2 - r0) * (x - c0)) / area
                w2 = ((r1 - r0) * (x - c0) - (y - r0) * (c1 - c0)) / area
                if w1 < 0.0 or w2 < 0.0 or w1 + w2 > 1.0:
                    continue
                depth = d0 + w1 * (d1 - d0) + w2 * (d2 - d0)
                if depth <= nearest[i, j]:
                    continue
                for k in range(3):
                    picture[i, j, k] += opacity * (colours[t, k] - picture[i, j, k])
                if opacity == 1.0:
                    nearest[i, j] = depth
