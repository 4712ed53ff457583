//! OpenMetrics 1.0 text: units, exemplars on buckets, `# EOF`.
//!
//! Written here, since the client crates can write only exemplars that they collected themselves. It differs from text 0.0.4 in
//! that a counter's family is named without `_total`; the samples are the same.

use std::fmt::Write;

use super::families::{FAMILIES, FamilyDef, Kind};
use super::model::{Exemplar, Histogram, Model, Sample, Value};

/// The model as OpenMetrics text.
pub(super) fn render(model: &Model) -> String {
    let mut out = String::new();
    for family in &model.families {
        head(&mut out, family.def);
        for sample in &family.samples {
            match &sample.value {
                Value::Number(n) => line(&mut out, family.def.name, "", sample, None, &n.to_string(), None),
                Value::Histogram(h) => histogram(&mut out, family.def.name, sample, h),
            }
        }
    }
    out.push_str("# EOF\n");
    out
}

fn head(out: &mut String, def: &FamilyDef) {
    let base = def.name.strip_suffix("_total").unwrap_or(def.name);
    // Two families must not share a name, and a counter's is the one without `_total`. Where a histogram has that one
    // (`goodput_output_tokens`) the counter is declared untyped, which leaves its sample's name as it is.
    let taken = def.kind == Kind::Counter && FAMILIES.iter().any(|other| other.name == base);
    let (name, kind) = if taken || def.is_untyped() {
        (def.name, "unknown")
    } else {
        (base, def.kind.name())
    };
    // invariant (here and below): writing to a String cannot fail.
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if !def.unit.is_empty() && name.ends_with(def.unit) {
        let _ = writeln!(out, "# UNIT {name} {}", def.unit);
    }
    let _ = write!(out, "# HELP {name} ");
    escaped(out, def.help);
    out.push('\n');
}

fn histogram(out: &mut String, name: &str, sample: &Sample, h: &Histogram) {
    for (edge, upto, exemplar) in h.cumulative() {
        line(
            out,
            name,
            "_bucket",
            sample,
            Some(&canonical(edge)),
            &upto.to_string(),
            exemplar,
        );
    }
    line(out, name, "_count", sample, None, &h.count.to_string(), None);
    line(out, name, "_sum", sample, None, &h.sum.to_string(), None);
}

fn line(out: &mut String, name: &str, part: &str, sample: &Sample, le: Option<&str>, value: &str, exemplar: Option<&Exemplar>) {
    out.push_str(name);
    out.push_str(part);
    let mut open = '{';
    for (name, value) in sample
        .labels
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .chain(le.map(|le| ("le", le)))
    {
        out.push(open);
        out.push_str(name);
        out.push_str("=\"");
        escaped(out, value);
        out.push('"');
        open = ',';
    }
    if open == ',' {
        out.push('}');
    }
    out.push(' ');
    out.push_str(value);
    if let Some(exemplar) = exemplar {
        out.push_str(" # {trace_id=\"");
        escaped(out, &exemplar.trace_id);
        let _ = write!(out, "\"}} {} {:.3}", exemplar.value, exemplar.unix_seconds);
    }
    out.push('\n');
}

fn escaped(out: &mut String, text: &str) {
    for part in text.split_inclusive(['\\', '"', '\n']) {
        let plain = part.trim_end_matches(['\\', '"', '\n']);
        out.push_str(plain);
        match &part[plain.len()..] {
            "\\" => out.push_str("\\\\"),
            "\"" => out.push_str("\\\""),
            "\n" => out.push_str("\\n"),
            _ => {}
        }
    }
}

/// A bucket's edge as the format wants it: always a float, and like Go's `%g` with an exponent from 1e6 up and below 1e-4.
fn canonical(edge: f64) -> String {
    if edge.is_infinite() {
        return "+Inf".to_owned();
    }
    if edge == 0.0 || (1e-4..1e6).contains(&edge.abs()) {
        return format!("{edge:?}");
    }
    let text = format!("{edge:e}");
    // invariant: `{:e}` always writes an exponent.
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_written_as_the_format_wants_them() {
        let written = [0.0, 1.0, 0.0075, 0.0001, 0.00002, 131_072.0, 1e6, 1_048_576.0, f64::INFINITY].map(canonical);
        assert_eq!(
            written,
            [
                "0.0",
                "1.0",
                "0.0075",
                "0.0001",
                "2e-05",
                "131072.0",
                "1e+06",
                "1.048576e+06",
                "+Inf"
            ]
        );
    }

    #[test]
    fn what_would_end_a_label_value_is_escaped() {
        let mut out = String::new();
        escaped(&mut out, "a\"b\\c\n\u{e9}\"\"\\\\\n\nz");
        assert_eq!(out, "a\\\"b\\\\c\\n\u{e9}\\\"\\\"\\\\\\\\\\n\\nz");
    }
}
