"""Characters on which the supported versions of Python do not agree."""

# Characters that Unicode 15 added and whose treatment would depend on the Python that runs it:
# 3.11 knows Unicode 14, 3.12 and 3.13 know 15. A vocabulary must give the same ids everywhere, so
# these are treated as 3.11 treats them, as letters without case or accents.
_RANGES = (
    (0x0ECE, 0x0ECE),
    (0x10EFD, 0x10EFF),
    (0x11241, 0x11241),
    (0x11B00, 0x11B09),
    (0x11F00, 0x11F01),
    (0x11F36, 0x11F3A),
    (0x11F40, 0x11F4F),
    (0x13439, 0x13440),
    (0x13447, 0x13455),
    (0x1E030, 0x1E06D),
    (0x1E08F, 0x1E08F),
    (0x1E4EC, 0x1E4EF),
)
# Each of them.
NEWER_THAN_UNICODE_14 = frozenset(
    chr(code) for first, last in _RANGES for code in range(first, last + 1)
)
