"""Characters that can forge the output of a terminal or a log viewer.

Control characters end a line or start an escape sequence. Line and paragraph separators end a line in some
programs. Bidirectional controls change the order in which the following text is shown. JSON already escapes
control characters below U+0020.
"""

from __future__ import annotations

from typing import Final

_CONTROL: Final = (*range(0x20), *range(0x7F, 0xA0))
_LINE_ENDS: Final = (0x2028, 0x2029)
#: Unicode's Bidi_Control.
_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))

#: Table for ``str.translate``: replaces each of these characters by its Python escape.
ESCAPED: Final = {code: f"\\x{code:02x}" for code in _CONTROL}
ESCAPED.update({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})
ESCAPED.update({code: f"\\u{code:04x}" for code in (*_LINE_ENDS, *_DIRECTIONS)})
