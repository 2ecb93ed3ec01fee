"""What is agreed on with every client of HTTP/2: how much at once, how long a head, what windows.

Relied on, of `h2`: `decoder` is where the limit of a head is set, `encoder` what heads of answers are made by.
"""

from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hpack import Encoder

STREAMS: Final = 250
"""Requests at once; a kube-apiserver with more opens another connection. Upstream's number."""
PENDING: Final = 10 * STREAMS
"""Requests under way with those that were reset and have not ended yet: more is a flood (CVE-2023-44487)."""
HEADS: Final = 512 * 1024
"""Bytes of one request's headers, 32 more for each: a user may be in a thousand groups. Clients are told."""
STREAM_WINDOW: Final = 64 * 1024 - 1
"""Bytes of one body that may be on their way: HTTP/2's own default."""
WINDOW: Final = STREAMS * (STREAM_WINDOW + 1)
"""Bytes of all bodies: nobody's that is not read holds up another's."""
AHEAD: Final = 64 * 1024
"""Bytes of answers that are made before the peer must be seen to take them."""
UNFINISHED: Final = 2 * 1024 * 1024
"""Bytes that may come without making a frame that says something: `h2` keeps one of 16 MiB until it is whole."""
REMEMBERED: Final = 10_000
"""Streams of which it is known how they ended, for what was on its way then."""


class _Encoder(Encoder):
    """Leaves texts as they are: Huffman's code saves a few bytes between two machines of a cluster and takes both time."""

    def encode(self, headers: Any, huffman: bool = False) -> bytes:  # noqa: FBT001, FBT002 -- hpack's signature
        """Return the bytes of a head."""
        return super().encode(headers, huffman)


class _Frames(H2Connection):
    MAX_CLOSED_STREAMS = REMEMBERED


def frames() -> H2Connection:
    """Return what frames of one connection are read and made by; nothing is sent yet."""
    made = _Frames(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            # What is wrong with one head is that stream's (heads.py); here it would end all of them.
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    made.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            SettingCodes.MAX_HEADER_LIST_SIZE: HEADS,
        },
    )
    made.decoder.max_header_list_size = HEADS
    made.encoder = _Encoder()
    return made
