"""Characters with which a text from a log or a caller forges what a terminal or a log viewer shows.

Control characters end a line or begin an escape sequence; line and paragraph separators end a line in some
programs; marks of the writing direction show what follows them in another order. JSON escapes the first by
itself.
"""

from __future__ import annotations

from typing import Final

_CONTROL: Final = (*range(0x20), *range(0x7F, 0xA0))
_LINE_ENDS: Final = (0x2028, 0x2029)
#: Unicode's Bidi_Control.
_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))

#: For ``str.translate``: each of these characters as Python writes it.
ESCAPED: Final = {code: f"\\x{code:02x}" for code in _CONTROL}
ESCAPED.update({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})
ESCAPED.update({code: f"\\u{code:04x}" for code in (*_LINE_ENDS, *_DIRECTIONS)})
