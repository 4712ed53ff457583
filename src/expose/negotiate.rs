//! Which format a scraper gets: the best of what it accepts, text 0.0.4 when in doubt. Never a refusal: a scraper that asks for
//! something unknown still gets its numbers.

/// An exposition format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Text 0.0.4.
    Text,
    /// OpenMetrics 1.0 text.
    OpenMetrics,
    /// Delimited protobuf with native histograms.
    Protobuf,
}

impl Format {
    /// The `content-type` it is sent under.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
        }
    }

    /// The format that the media range `kind` with `parameters` asks for.
    fn named<'a>(kind: &str, parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let (mut version, mut proto, mut encoding) = (None, None, None);
        for (name, value) in parameters {
            match name {
                "version" => version = Some(value),
                "proto" => proto = Some(value),
                "encoding" => encoding = Some(value),
                _ => {}
            }
        }
        match kind {
            "application/openmetrics-text" if matches!(version, None | Some("1.0.0" | "0.0.1")) => Some(Self::OpenMetrics),
            "application/vnd.google.protobuf"
                if proto == Some("io.prometheus.client.MetricFamily") && encoding == Some("delimited") =>
            {
                Some(Self::Protobuf)
            }
            "text/plain" if matches!(version, None | Some("0.0.4")) => Some(Self::Text),
            "text/*" | "*/*" => Some(Self::Text),
            _ => None,
        }
    }
}

/// The format for the values of all `accept` headers, joined by commas: the known one with the highest weight, the first of equals.
pub fn format_for(accept: &str) -> Format {
    let mut best = (Format::Text, 0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters = parts.map(parameter).collect::<Vec<_>>();
        let weight = weight(&parameters);
        if let Some(format) = Format::named(&kind, parameters.into_iter())
            && weight > best.1
        {
            best = (format, weight);
        }
    }
    best.0
}

/// Whether the values of all `accept-encoding` headers, joined by commas, ask for gzip.
pub fn accepts_gzip(accept_encoding: &str) -> bool {
    let (mut named, mut any) = (None, None);
    for range in accept_encoding.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = weight(&parts.map(parameter).collect::<Vec<_>>());
        match coding.as_str() {
            "gzip" | "x-gzip" => named = Some(weight),
            "*" => any = Some(weight),
            _ => {}
        }
    }
    named.or(any).is_some_and(|weight| weight > 0)
}

fn parameter(text: &str) -> (&str, &str) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (name.trim(), value.trim().trim_matches('"'))
}

/// The `q` of a media range in thousandths, 1000 without one; an unreadable one counts as 0.
fn weight(parameters: &[(&str, &str)]) -> u16 {
    let Some((_, q)) = parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case("q")) else {
        return 1000;
    };
    match q.parse::<f32>() {
        Ok(q) if (0.0..=1.0).contains(&q) => (q * 1000.0).round() as u16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    #[test]
    fn the_weights_decide_and_the_first_of_equals_wins() {
        assert_eq!(
            format_for(&format!(
                "text/plain;q=0.5,{PROTOBUF};q=0.7,application/openmetrics-text;q=0.6"
            )),
            Format::Protobuf
        );
        assert_eq!(format_for("application/openmetrics-text, text/plain"), Format::OpenMetrics);
        assert_eq!(format_for("text/plain, application/openmetrics-text"), Format::Text);
        assert_eq!(format_for("application/openmetrics-text;q=0, text/plain;q=0.1"), Format::Text);
    }

    #[test]
    fn what_prometheus_sends_is_understood() {
        let v2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let v3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(format_for(v2), Format::OpenMetrics);
        assert_eq!(format_for(v3), Format::OpenMetrics);
        assert_eq!(format_for(&format!("{PROTOBUF};q=0.7,{v3}")), Format::Protobuf);
    }

    #[test]
    fn anything_else_gets_text() {
        for accept in [
            "",
            "*/*",
            "text/*",
            "application/json",
            "text/plain;version=1.0.0",
            "application/openmetrics-text;version=2.0.0",
            ";;,=,q=1",
        ] {
            assert_eq!(format_for(accept), Format::Text, "{accept}");
        }
        assert_eq!(
            format_for("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"),
            Format::Text
        );
    }

    #[test]
    fn gzip_only_when_asked_for() {
        for asked in ["gzip", "deflate, GZIP;q=0.5", "*", "br;q=1.0, *;q=0.1"] {
            assert!(accepts_gzip(asked), "{asked}");
        }
        for not in ["", "identity", "br", "gzip;q=0", "*;q=0", "gzip;q=0, *", "gzip;q=nonsense"] {
            assert!(!accepts_gzip(not), "{not}");
        }
    }
}
