//! When a certificate ends, read off its DER: enough of X.509 for a warning, nothing is decided by it.

/// Whole days since the certificate `der` ended; none while it is valid, or when it cannot be read.
pub(super) fn days_since_end(der: &[u8], now_unix: f64) -> Option<u64> {
    let past = now_unix - not_after(der)? as f64;
    (past > 0.0).then_some((past / 86_400.0) as u64)
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xA0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `notAfter` in seconds since the epoch.
fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = inside(der, SEQUENCE)?;
    let (tbs, _) = inside(certificate, SEQUENCE)?;
    // version (optional), serial number, signature algorithm, issuer, validity
    let mut rest = if tbs.first() == Some(&VERSION) { element(tbs)?.2 } else { tbs };
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (validity, _) = inside(rest, SEQUENCE)?;
    let (tag, text, _) = element(element(validity)?.2)?;
    seconds(tag, std::str::from_utf8(text).ok()?)
}

/// The content of the element that `der` begins with, which must have this tag, and what follows.
fn inside(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(der)?;
    (found == tag).then_some((content, rest))
}

/// Tag, content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let bytes = usize::from(first & 0x7F);
        if bytes == 0 || bytes > 4 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(bytes)?;
        length = digits.iter().fold(0, |n, byte| (n << 8) | usize::from(*byte));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn seconds(tag: u8, text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            // RFC 5280, 4.1.2.5.1.
            (year + if year < 50 { 2000 } else { 1900 }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from 1970-01-01 to this date of the Gregorian calendar (March is the first month of its year here, so that the leap day is
/// the last of one).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let before = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_seconds() {
        for (tag, text, seconds_of) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "000229120001Z", Some(951_825_601)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
            (GENERALIZED_TIME, "2050", None),
            (UTC_TIME, "700101000000+0100", None),
            (SEQUENCE, "700101000000Z", None),
        ] {
            assert_eq!(seconds(tag, text), seconds_of, "{text}");
        }
    }

    #[test]
    fn a_certificates_end_is_found_and_nonsense_has_none() {
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2020, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let end = 1_583_020_800.0;
        assert_eq!(days_since_end(certificate.der(), end - 1.0), None);
        assert_eq!(days_since_end(certificate.der(), end + 86_400.0 * 2.5), Some(2));
        for cut in 0..certificate.der().len().min(200) {
            let _ = not_after(&certificate.der()[..cut]);
        }
        assert_eq!(not_after(&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF, 0x30]), None);
    }
}
