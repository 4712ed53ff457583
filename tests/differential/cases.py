"""Hostile requests, raw. `why` explains what the proxies do differently; a difference without one fails the run."""

from typing import NamedTuple


class Case(NamedTuple):
    name: str
    raw: bytes
    why: str = ""


HOST = b"Host: llm\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: llm\r\n\r\n"


def post(fields: bytes, body: bytes, target: bytes = b"/v1/x") -> bytes:
    return b"POST " + target + b" HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


def get(target: bytes = b"/v1/x", fields: bytes = HOST, version: bytes = b"HTTP/1.1") -> bytes:
    return b"GET " + target + b" " + version + b"\r\n" + fields + b"\r\n"


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked\r\n", body)


LAST = b"0\r\n\r\n"

CASES = [
    # Sane, to see that the set-up works.
    Case("plain_get", get()),
    Case("plain_post", post(b"Content-Length: 5\r\n", b"hello")),
    Case("plain_chunked", chunked(b"5\r\nhello\r\n" + LAST)),
    Case("pipelined", get() + get(b"/v1/y")),
    # Two framings.
    Case("cl_then_te", post(b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", LAST + b"G")),
    Case("te_then_cl", post(b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", LAST + b"G")),
    Case("cl_te_smuggles", post(b"Content-Length: 43\r\nTransfer-Encoding: chunked\r\n", LAST + SMUGGLED)),
    Case("te_cl_smuggles", post(b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"25\r\n" + SMUGGLED[:37] + b"\r\n" + LAST)),
    Case("te_space_before_colon", post(b"Content-Length: 5\r\nTransfer-Encoding : chunked\r\n", LAST)),
    Case("te_tab", post(b"Transfer-Encoding:\tchunked\r\n", LAST),
         "a tab is white space that RFC 9110 5.5 allows around a value; what goes on is rewritten without it"),
    Case("te_vertical_tab", post(b"Content-Length: 5\r\nTransfer-Encoding: \x0bchunked\r\n", LAST)),
    Case("te_upper", post(b"TRANSFER-ENCODING: CHUNKED\r\n", LAST)),
    Case("te_xchunked", post(b"Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n", LAST)),
    Case("te_unknown_only", post(b"Transfer-Encoding: xchunked\r\n", LAST)),
    Case("te_quoted", post(b"Transfer-Encoding: \"chunked\"\r\n", LAST)),
    Case("te_identity_and_cl", post(b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n", b"hello")),
    Case("te_twice", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", LAST)),
    Case("te_chunked_then_identity", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", LAST)),
    Case("te_gzip_chunked", post(b"Transfer-Encoding: gzip, chunked\r\n", LAST)),
    Case("te_chunked_chunked", post(b"Transfer-Encoding: chunked, chunked\r\n", LAST)),
    Case("te_trailing_comma", post(b"Transfer-Encoding: chunked,\r\n", LAST)),
    Case("te_folded", post(b"Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n", LAST)),
    Case("te_in_1_0", b"POST /v1/x HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + LAST),
    Case("te_empty", post(b"Transfer-Encoding:\r\nContent-Length: 5\r\n", b"hello")),
    Case("te_underscore", post(b"Content-Length: 5\r\nTransfer_Encoding: chunked\r\n", LAST)),
    # Lengths.
    Case("cl_twice_same", post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello"),
         "equal lengths may be taken as one (RFC 9110 8.6), as HAProxy does; one goes on"),
    Case("cl_twice_other", post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello!")),
    Case("cl_list_same", post(b"Content-Length: 5, 5\r\n", b"hello")),
    Case("cl_plus", post(b"Content-Length: +5\r\n", b"hello")),
    Case("cl_minus", post(b"Content-Length: -5\r\n", b"hello")),
    Case("cl_hex", post(b"Content-Length: 0x5\r\n", b"hello")),
    Case("cl_letters", post(b"Content-Length: 5a\r\n", b"hello")),
    Case("cl_empty", post(b"Content-Length:\r\n", b"")),
    Case("cl_inner_space", post(b"Content-Length: 5 5\r\n", b"hello")),
    Case("cl_wraps_64_bits", post(b"Content-Length: 18446744073709551621\r\n", b"hello")),
    Case("cl_leading_zeros", post(b"Content-Length: 0005\r\n", b"hello")),
    Case("cl_space_before_colon", post(b"Content-Length : 5\r\n", b"hello")),
    # Chunks.
    Case("chunk_not_hex", chunked(b"xyz\r\nhello\r\n" + LAST)),
    Case("chunk_0x", chunked(b"0x5\r\nhello\r\n" + LAST)),
    Case("chunk_minus", chunked(b"-5\r\nhello\r\n" + LAST)),
    Case("chunk_plus", chunked(b"+5\r\nhello\r\n" + LAST)),
    Case("chunk_wraps_64_bits", chunked(b"10000000000000005\r\nhello\r\n" + LAST)),
    Case("chunk_empty_size", chunked(b"\r\nhello\r\n" + LAST)),
    Case("chunk_leading_space", chunked(b" 5\r\nhello\r\n" + LAST)),
    Case("chunk_trailing_space", chunked(b"5 \r\nhello\r\n" + LAST)),
    Case("chunk_bare_lf_size", chunked(b"5\nhello\r\n" + LAST)),
    Case("chunk_bare_lf_data", chunked(b"5\r\nhello\n" + LAST)),
    Case("chunk_no_crlf_after_data", chunked(b"5\r\nhello" + LAST)),
    Case("chunk_too_long_data", chunked(b"5\r\nhello!!\r\n" + LAST)),
    Case("chunk_extension", chunked(b"5;a=b\r\nhello\r\n" + LAST)),
    Case("chunk_extension_bare_lf", chunked(b"5;a\nhello\r\n" + LAST)),
    Case("chunk_extension_bare_cr", chunked(b"5;a\rb\r\nhello\r\n" + LAST)),
    Case("chunk_last_bare_lf", chunked(b"5\r\nhello\r\n0\n\n")),
    Case("chunk_trailers", chunked(b"5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n")),
    Case("chunk_trailer_framing", chunked(b"5\r\nhello\r\n0\r\nContent-Length: 9\r\nHost: evil\r\n\r\n")),
    # Lines.
    Case("bare_lf_everywhere", get().replace(b"\r\n", b"\n")),
    Case("bare_lf_one_field", get(fields=b"Host: llm\nX: y\r\n")),
    Case("bare_lf_injects", get(fields=b"Host: llm\r\nX: a\nTransfer-Encoding: chunked\r\n")),
    Case("bare_cr_in_value", get(fields=b"Host: llm\r\nX: a\rY: b\r\n")),
    Case("bare_cr_ends_lines", get().replace(b"\r\n", b"\r")),
    Case("leading_crlf", b"\r\n\r\n" + get()),
    Case("leading_space", b" " + get()),
    Case("folded_value", get(fields=b"Host: llm\r\nX: a\r\n b\r\n")),
    Case("folded_first", b"GET /v1/x HTTP/1.1\r\n Host: evil\r\n" + HOST + b"\r\n"),
    Case("space_before_colon", get(fields=b"Host : llm\r\n")),
    Case("tab_before_colon", get(fields=b"Host: llm\r\nX\t: y\r\n")),
    Case("empty_name", get(fields=b"Host: llm\r\n: y\r\n")),
    Case("space_in_name", get(fields=b"Host: llm\r\nX Y: z\r\n")),
    Case("no_colon", get(fields=b"Host: llm\r\nnonsense\r\n")),
    Case("nul_in_value", get(fields=b"Host: llm\r\nX: a\0b\r\n")),
    Case("nul_in_name", get(fields=b"Host: llm\r\nX\0Y: b\r\n")),
    Case("control_in_value", get(fields=b"Host: llm\r\nX: a\x01b\r\n")),
    Case("delete_in_value", get(fields=b"Host: llm\r\nX: a\x7fb\r\n")),
    Case("high_bytes_in_value", get(fields=b"Host: llm\r\nX: \xc3\xa9\xff\r\n")),
    Case("high_byte_in_name", get(fields=b"Host: llm\r\nX\xe9: b\r\n")),
    Case("colon_in_quotes_name", get(fields=b"Host: llm\r\n\"X\": b\r\n")),
    # Targets.
    Case("absolute", get(b"http://llm/v1/x")),
    Case("absolute_other_host", get(b"http://evil.example/v1/x"),
         "the target wins over Host (RFC 9112 3.2.2), as for nginx; it goes to the one upstream whatever it names"),
    Case("absolute_userinfo", get(b"http://llm@evil.example/v1/x")),
    Case("absolute_no_path", get(b"http://llm?x=1"),
         "as nginx: the target is the host, the path is /"),
    Case("absolute_no_host", get(b"http:///v1/x")),
    Case("absolute_other_scheme", get(b"ftp://evil.example/v1/x")),
    Case("double_slash", get(b"//evil.example/v1/x")),
    Case("relative", get(b"v1/x")),
    Case("authority_form", get(b"evil.example:80")),
    Case("asterisk_get", get(b"*")),
    Case("asterisk_options", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
         "OPTIONS * is for the whole server, which is the upstream"),
    Case("connect", b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n"),
    Case("fragment", get(b"/v1/x#y"),
         "a fragment is no part of a target; it ends here, and the rest goes on"),
    Case("dot_segments", get(b"/v1/../admin")),
    Case("encoded_dots", get(b"/v1/%2e%2e/admin")),
    Case("backslash", get(b"/v1\\x")),
    Case("encoded_crlf", get(b"/v1/x%0d%0aX:%20y")),
    Case("space_in_target", get(b"/v1/x y")),
    Case("tab_in_target", get(b"/v1/x\ty")),
    Case("nul_in_target", get(b"/v1/x\0y")),
    Case("high_byte_in_target", get(b"/v1/\xc3\xa9"),
         "as nginx: the bytes of a path are the upstream's to read"),
    Case("bad_percent", get(b"/v1/%zz"),
         "nginx decodes targets to match its locations; nothing is decoded here, as in HAProxy"),
    # Request line.
    Case("http_0_9", b"GET /v1/x\r\n"),
    Case("http_1_0_without_host", b"GET /v1/x HTTP/1.0\r\n\r\n"),
    Case("http_1_2", get(version=b"HTTP/1.2")),
    Case("http_2_0", get(version=b"HTTP/2.0")),
    Case("http_9_9", get(version=b"HTTP/9.9")),
    Case("http_lower", get(version=b"http/1.1")),
    Case("http_junk", get(version=b"HTTP/1.1x")),
    Case("two_spaces", b"GET  /v1/x HTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("tabs_between", b"GET\t/v1/x\tHTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("lower_method", b"get /v1/x HTTP/1.1\r\n" + HOST + b"\r\n",
         "methods are case-sensitive tokens (RFC 9110 9.1) and the upstream's to refuse, as for HAProxy"),
    Case("bad_method", b"GE(T /v1/x HTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("unknown_method", b"BREW /v1/x HTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("trace", b"TRACE /v1/x HTTP/1.1\r\n" + HOST + b"\r\n",
         "as HAProxy: the upstream's to refuse; fields that name hops are not added, so there are none to reveal"),
    Case("h2_preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Case("tls_hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64),
    # Host.
    Case("no_host", get(fields=b"")),
    Case("two_hosts", get(fields=b"Host: llm\r\nHost: evil\r\n")),
    Case("two_hosts_same", get(fields=b"Host: llm\r\nHost: llm\r\n")),
    Case("empty_host", get(fields=b"Host:\r\n"),
         "an empty Host is valid where the authority is unknown (RFC 9112 3.2)"),
    Case("host_with_path", get(fields=b"Host: llm/evil\r\n")),
    Case("host_with_space", get(fields=b"Host: llm evil\r\n")),
    Case("host_list", get(fields=b"Host: llm, evil\r\n")),
    # Sizes.
    Case("value_100k", get(fields=b"Host: llm\r\nX: " + b"a" * 100_000 + b"\r\n")),
    Case("target_100k", get(b"/" + b"a" * 100_000)),
    Case("fields_2000", get(fields=b"Host: llm\r\n" + b"X: y\r\n" * 2000)),
    # Hop by hop.
    Case("h2c_upgrade", get(fields=b"Host: llm\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n")),
    Case("nominates_length", post(b"Content-Length: 5\r\nConnection: Content-Length\r\n", b"hello")),
    Case("nominates_host", get(fields=b"Host: llm\r\nConnection: Host\r\n")),
    Case("nominates_authorization", get(fields=b"Host: llm\r\nAuthorization: k\r\nConnection: close, Authorization\r\n")),
    Case("expect_other", post(b"Content-Length: 5\r\nExpect: 200-ok\r\n", b"hello")),
    Case("get_with_body", b"GET /v1/x HTTP/1.1\r\n" + HOST + b"Content-Length: 37\r\n\r\n" + SMUGGLED[:37]),
]
