//! One recorded stream under every definition: the same bytes, the numbers each tool makes of them, and why they differ.

use serde_json::{Value, json};

use super::recorded::Recorded;
use super::{Align, Format, Table, own};
use crate::measure::profile::{Answer, Api, CountedFrom, Figure, GOODPUT, Gaps, PROFILES, Profile};

/// One definition applied to a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Profile name.
    pub name: &'static str,
    /// What the profile follows.
    pub version: &'static str,
    /// TTFT in words.
    pub ttft: &'static str,
    /// E2E in words.
    pub e2e: &'static str,
    /// `n` in words.
    pub n: &'static str,
    /// The numbers.
    pub answer: Answer,
}

/// The rows for `recorded`: all of them, or the one profile called `only`. None for an unknown name.
pub fn rows(recorded: &Recorded, only: Option<&str>) -> Option<Vec<Row>> {
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut rows = Vec::new();
    if wanted(GOODPUT) {
        let version = env!("CARGO_PKG_VERSION");
        rows.push(Row {
            name: GOODPUT,
            version,
            ttft: own::TTFT,
            e2e: own::E2E,
            n: own::N,
            answer: own::answer(recorded),
        });
    }
    if readable_by_tools(recorded) {
        rows.extend(PROFILES.iter().filter(|p| wanted(p.name)).map(|p| row(p, recorded)));
    }
    (!rows.is_empty() || names().any(wanted)).then_some(rows)
}

/// Every profile name, `goodput` first.
pub fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once(GOODPUT).chain(PROFILES.iter().map(|p| p.name))
}

/// The tools' clients that are replayed here read OpenAI's chat and completions streams only, and nothing compressed.
fn readable_by_tools(recorded: &Recorded) -> bool {
    recorded.content_encoding.is_none() && recorded.path.as_deref().is_none_or(|path| path.ends_with("/completions"))
}

fn row(profile: &'static Profile, recorded: &Recorded) -> Row {
    // No client reads the body of an error reply as a stream.
    let refused = recorded.status.filter(|status| *status != 200);
    let answer = match refused {
        Some(status) => Answer {
            failed: Some(format!("status {status}")),
            ..Answer::default()
        },
        None => profile.answer(&recorded.recording),
    };
    Row {
        name: profile.name,
        version: profile.version,
        ttft: profile.ttft,
        e2e: profile.e2e,
        n: profile.n,
        answer,
    }
}

/// The whole report in `format`.
pub fn render(recorded: &Recorded, rows: &[Row], format: Format) -> String {
    match format {
        Format::Text => prose(recorded, rows, Table::text, ""),
        Format::Markdown => prose(recorded, rows, Table::markdown, "- "),
        Format::Json => format!("{:#}\n", document(recorded, rows)),
    }
}

fn prose(recorded: &Recorded, rows: &[Row], table: fn(&Table) -> String, bullet: &str) -> String {
    let mut out = format!("{}\n\n{}", headline(recorded), table(&numbers(recorded, rows)));
    if rows.iter().any(by_words) {
        out.push_str("\nwords: the tool runs its own tokenizer on the text; whitespace-separated words stand in for it here.\n");
    }
    if let Some(n) = own::usage(recorded).filter(|n| rows.iter().any(|r| by_words(r) && r.answer.n != Some(*n))) {
        out.push_str(&format!(
            "The server counted {n} tokens: read those rows' averages per token accordingly.\n"
        ));
    }
    if !recorded.timed {
        out.push_str("\nThe recording has no times: only n can be told.\n");
    }
    if let Some(coding) = &recorded.content_encoding {
        let mend = "for the tools' definitions record with `accept-encoding: identity`";
        out.push_str(&format!("\nThe body is compressed ({coding}): {mend}.\n"));
    } else if !readable_by_tools(recorded) {
        out.push_str("\nThe benchmark tools' clients read chat and completions streams; this is another API.\n");
    }
    out.push_str("\nDefinitions\n\n");
    for row in rows {
        out.push_str(&format!("{bullet}{} ({})\n", row.name, row.version));
        for (name, formula) in formulas(row) {
            out.push_str(&format!("    {name} = {formula}\n"));
        }
        if let Some(why) = &row.answer.failed {
            out.push_str(&format!("    ! {why}\n"));
        }
        for note in &row.answer.notes {
            out.push_str(&format!("    ! {note}\n"));
        }
    }
    out
}

fn headline(recorded: &Recorded) -> String {
    let recording = &recorded.recording;
    let bytes: usize = recording.reads.iter().map(|r| r.bytes.len()).sum();
    let path = recorded.path.as_deref().unwrap_or(match recording.api {
        Api::Chat => "taken for a chat stream (--path says otherwise)",
        Api::Completions => "taken for a completions stream (--path says otherwise)",
    });
    let status = recorded.status.map(|s| format!(", status {s}")).unwrap_or_default();
    let cut = if recorded.complete { "" } else { ", cut off" };
    format!(
        "{path}{status}: {bytes} bytes in {} reads{cut}. Times in ms from the request's start.",
        recording.reads.len()
    )
}

fn numbers(recorded: &Recorded, rows: &[Row]) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("profile", Left),
        ("TTFT", Right),
        ("per output token", Left),
        ("gaps: median / max (count)", Left),
        ("E2E", Right),
        ("n", Right),
        ("n from", Left),
        ("", Left),
    ];
    let mut table = Table::new(&columns);
    for row in rows {
        let answer = &row.answer;
        let time = |ns: Option<u64>| ms(ns.map(|v| v as f64).filter(|_| recorded.timed));
        let figure = |f: &Figure| format!("{} {}", f.name, ms(f.ns.filter(|_| recorded.timed)));
        table.row([
            row.name.to_owned(),
            time(answer.ttft_ns),
            answer.per_token.iter().map(figure).collect::<Vec<_>>().join(", "),
            answer
                .gaps
                .as_ref()
                .filter(|_| recorded.timed)
                .map(spread)
                .unwrap_or_default(),
            time(answer.e2e_ns),
            answer.n.map(|n| n.to_string()).unwrap_or_else(|| "-".into()),
            answer.counted_from.map(|c| short(c).to_owned()).unwrap_or_default(),
            if answer.failed.is_some() {
                "failed".into()
            } else {
                String::new()
            },
        ]);
    }
    table
}

fn by_words(row: &Row) -> bool {
    row.answer.counted_from == Some(CountedFrom::ClientTokenizer)
}

const fn short(counted: CountedFrom) -> &'static str {
    match counted {
        CountedFrom::ClientTokenizer => "words",
        CountedFrom::Usage => "usage",
        CountedFrom::Events => "events",
    }
}

fn formulas(row: &Row) -> Vec<(&'static str, String)> {
    let answer = &row.answer;
    let mut all = vec![("TTFT", row.ttft.to_owned())];
    all.extend(answer.per_token.iter().map(|f| (f.name, f.formula.to_owned())));
    all.extend(answer.gaps.iter().map(|g| (g.name, g.formula.to_owned())));
    all.push(("E2E", row.e2e.to_owned()));
    all.push(("n", row.n.to_owned()));
    all.extend(answer.events.map(|events| ("data events", events.to_string())));
    all.extend(
        answer
            .others
            .iter()
            .map(|f| (f.name, format!("{}: {} ms", f.formula, ms(f.ns)))),
    );
    all
}

fn spread(gaps: &Gaps) -> String {
    let (median, max) = median_and_max(gaps);
    match (median, max) {
        (Some(median), Some(max)) => {
            format!(
                "{} {} / {} ({})",
                gaps.name,
                ms(Some(median as f64)),
                ms(Some(max as f64)),
                gaps.ns.len()
            )
        }
        _ => format!("{} - (0)", gaps.name),
    }
}

/// Nearest rank.
fn median_and_max(gaps: &Gaps) -> (Option<u64>, Option<u64>) {
    let mut sorted = gaps.ns.clone();
    sorted.sort_unstable();
    (
        sorted.get(sorted.len().saturating_sub(1) / 2).copied(),
        sorted.last().copied(),
    )
}

/// Milliseconds with as many digits as matter.
fn ms(ns: Option<f64>) -> String {
    match ns.map(|ns| ns / 1e6) {
        None => "-".into(),
        Some(ms) if ms.abs() >= 100.0 => format!("{ms:.1}"),
        Some(ms) => format!("{ms:.2}"),
    }
}

fn document(recorded: &Recorded, rows: &[Row]) -> Value {
    let recording = &recorded.recording;
    let timed = |ns: f64| recorded.timed.then_some(ns / 1e6);
    let figure = |f: &Figure| json!({"name": f.name, "ms": f.ns.and_then(timed), "formula": f.formula});
    let profile = |row: &Row| {
        let answer = &row.answer;
        let gaps = answer.gaps.as_ref().map(|gaps| {
            let (median, max) = median_and_max(gaps);
            json!({
                "name": gaps.name,
                "formula": gaps.formula,
                "count": gaps.ns.len(),
                "median_ms": median.and_then(|v| timed(v as f64)),
                "max_ms": max.and_then(|v| timed(v as f64)),
            })
        });
        json!({
            "name": row.name,
            "version": row.version,
            "ttft_ms": answer.ttft_ns.and_then(|v| timed(v as f64)),
            "e2e_ms": answer.e2e_ns.and_then(|v| timed(v as f64)),
            "n": answer.n,
            "n_from": answer.counted_from.map(|c| c.name()),
            "events": answer.events,
            "per_token": answer.per_token.iter().map(figure).collect::<Vec<_>>(),
            "others": answer.others.iter().map(figure).collect::<Vec<_>>(),
            "gaps": gaps,
            "failed": answer.failed,
            "notes": answer.notes,
            "definition": {"ttft": row.ttft, "e2e": row.e2e, "n": row.n},
        })
    };
    json!({
        "stream": {
            "path": recorded.path,
            "status": recorded.status,
            "reads": recording.reads.len(),
            "bytes": recording.reads.iter().map(|r| r.bytes.len()).sum::<usize>(),
            "timed": recorded.timed,
            "complete": recorded.complete,
        },
        "profiles": rows.iter().map(profile).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
