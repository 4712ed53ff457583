//! gRPC calls: the reply is HTTP 200 whatever became of the call, and the trailers (or the head, of a reply without a body) say what
//! did. Forwarded unread; the status is translated into the HTTP status that means the same, and that decides the outcome.

/// Whether a reply of this content type is a gRPC call's. gRPC-Web is not: its trailers are part of the body.
pub fn is_grpc(content_type: &str) -> bool {
    const TYPE: &str = "application/grpc";
    let begins = content_type
        .get(..TYPE.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(TYPE));
    begins && matches!(content_type.as_bytes().get(TYPE.len()), None | Some(b'+' | b';' | b' '))
}

/// The HTTP status that the `grpc-status` in `value` stands for (google.rpc.Code); what is none of them is `UNKNOWN`.
pub fn http_status(value: &str) -> u16 {
    match value.trim().parse() {
        Ok(0u8) => 200,
        // CANCELLED, and by whom is not said: the client's side, as a rule.
        Ok(1) => 499,
        // INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE
        Ok(3 | 9 | 11) => 400,
        // DEADLINE_EXCEEDED
        Ok(4) => 504,
        // NOT_FOUND
        Ok(5) => 404,
        // ALREADY_EXISTS, ABORTED
        Ok(6 | 10) => 409,
        // PERMISSION_DENIED
        Ok(7) => 403,
        // RESOURCE_EXHAUSTED
        Ok(8) => 429,
        // UNIMPLEMENTED
        Ok(12) => 501,
        // UNAVAILABLE
        Ok(14) => 503,
        // UNAUTHENTICATED
        Ok(16) => 401,
        // UNKNOWN, INTERNAL, DATA_LOSS, and no code at all
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Ending, Outcome, Seen, decide};

    #[test]
    fn the_content_type_tells_grpc_from_its_web_variant() {
        for grpc in [
            "application/grpc",
            "application/grpc+proto",
            "Application/GRPC; charset=utf-8",
        ] {
            assert!(is_grpc(grpc), "{grpc}");
        }
        for other in ["application/grpc-web+proto", "application/grp", "application/json", ""] {
            assert!(!is_grpc(other), "{other}");
        }
    }

    #[test]
    fn every_code_has_its_outcome() {
        use Outcome::*;
        let expected = [
            Ok,            // OK
            ClientError,   // CANCELLED
            UpstreamError, // UNKNOWN
            ClientError,   // INVALID_ARGUMENT
            UpstreamError, // DEADLINE_EXCEEDED
            ClientError,   // NOT_FOUND
            ClientError,   // ALREADY_EXISTS
            ClientError,   // PERMISSION_DENIED
            Overloaded,    // RESOURCE_EXHAUSTED
            ClientError,   // FAILED_PRECONDITION
            ClientError,   // ABORTED
            ClientError,   // OUT_OF_RANGE
            UpstreamError, // UNIMPLEMENTED
            UpstreamError, // INTERNAL
            Overloaded,    // UNAVAILABLE
            UpstreamError, // DATA_LOSS
            ClientError,   // UNAUTHENTICATED
            UpstreamError, // no code
        ];
        for (code, outcome) in expected.into_iter().enumerate() {
            let status = http_status(&code.to_string());
            assert_eq!(decide(Ending::Complete, Some(status), Seen::Unread), outcome, "{code}");
        }
        for odd in ["", "-1", "x", "256"] {
            assert_eq!(http_status(odd), 500, "{odd}");
        }
    }
}
