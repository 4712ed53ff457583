//! Reading the loose tree key by key. The reader collects every problem and hands back a usable value all the same, so that one run
//! finds them all; a default comes from the table of keys and goes through the same parser as what people write.

use std::collections::HashMap;

use config::{Value, ValueKind};

use super::keys;
use super::leaf::Leaf;
use super::problem::{Problem, Wrong, suggestion};
use super::raw::place;

/// A table of the tree, or the absence of one.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    /// Where it is, for people: `routes[0]`.
    pub(super) path: String,
    /// Where it is, in the table of keys: `routes[]`.
    pattern: String,
    table: Option<&'a HashMap<String, Value>>,
}

impl<'a> Section<'a> {
    /// Whether anything is written for `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.table
            .and_then(|table| table.get(key))
            .filter(|value| !matches!(value.kind, ValueKind::Nil))
    }

    fn below(&self, key: &str) -> (String, String) {
        (join(&self.path, key), join(&self.pattern, key))
    }
}

/// Collects problems while the tree is read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) problems: Vec<Problem>,
}

impl Reader {
    /// The whole tree.
    pub(super) fn root<'a>(&mut self, root: &'a Value) -> Section<'a> {
        let table = self.table(root, "", "");
        Section {
            path: String::new(),
            pattern: String::new(),
            table,
        }
    }

    /// The section `key`; an empty one when it is missing or no section (which is a problem).
    pub(super) fn section<'a>(&mut self, parent: &Section<'a>, key: &str) -> Section<'a> {
        let (path, pattern) = parent.below(key);
        let table = parent.value(key).and_then(|value| self.table(value, &path, &pattern));
        Section { path, pattern, table }
    }

    /// The list of sections `key`, at most `cap` of them.
    pub(super) fn sections<'a>(&mut self, parent: &Section<'a>, key: &str, cap: usize) -> Vec<Section<'a>> {
        let (path, pattern) = parent.below(key);
        let Some(value) = parent.value(key) else { return Vec::new() };
        let ValueKind::Array(items) = &value.kind else {
            self.wrong_at(
                &path,
                value,
                Wrong::new("is not a list", "write its entries with `- ` in front"),
            );
            return Vec::new();
        };
        if items.len() > cap {
            let wrong = Wrong::new(format!("has {} entries", items.len()), format!("keep it within {cap}"));
            self.problems.push(Problem::new(path.clone(), "", wrong));
        }
        let pattern = format!("{pattern}[]");
        let mut sections = Vec::new();
        for (at, item) in items.iter().take(cap).enumerate() {
            let path = format!("{path}[{at}]");
            if let Some(table) = self.table(item, &path, &pattern) {
                sections.push(Section {
                    path,
                    pattern: pattern.clone(),
                    table: Some(table),
                });
            }
        }
        sections
    }

    /// The value of `key`, or its default.
    pub(super) fn get<'a, T>(&mut self, section: &Section<'a>, key: &str, parse: impl Fn(&Leaf) -> Result<T, Wrong>) -> T {
        self.given(section, key, &parse).unwrap_or_else(|| {
            let default = Leaf::loose(default(section, key));
            // invariant: a test reads every default of the table with its key's parser.
            parse(&default).expect("a default is a valid value")
        })
    }

    /// The value of `key` when it is written and right.
    pub(super) fn given<T>(&mut self, section: &Section<'_>, key: &str, parse: impl Fn(&Leaf) -> Result<T, Wrong>) -> Option<T> {
        let value = section.value(key)?;
        let parsed = parse(&Leaf::written(value));
        parsed
            .map_err(|wrong| self.wrong_at(&section.below(key).0, value, wrong))
            .ok()
    }

    /// As [`Reader::given`], and its absence is a problem.
    pub(super) fn required<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        parse: impl Fn(&Leaf) -> Result<T, Wrong>,
    ) -> Option<T> {
        if !section.has(key) {
            let help = keys::find(&section.below(key).1).map_or("", |key| key.help);
            self.problem(section, key, Wrong::new("is missing", format!("write the {help}")));
        }
        self.given(section, key, parse)
    }

    /// The list `key`, element by element; in the environment and in flags its elements are separated by commas.
    pub(super) fn list<T>(&mut self, section: &Section<'_>, key: &str, parse: impl Fn(&Leaf) -> Result<T, Wrong>) -> Vec<T> {
        let path = section.below(key).0;
        let Some(value) = section.value(key) else {
            // invariant: as in `get`.
            return split(default(section, key))
                .map(|leaf| parse(&leaf).expect("a default is a valid value"))
                .collect();
        };
        let items: Vec<Leaf> = match (&value.kind, value.origin()) {
            (ValueKind::Array(items), _) => items.iter().map(Leaf::written).collect(),
            (ValueKind::String(text), Some(_)) => split(text).collect(),
            _ => {
                let right = format!("write it in brackets: `[{}]`", Leaf::written(value).shown());
                self.wrong_at(&path, value, Wrong::new("is not a list", right));
                return Vec::new();
            }
        };
        let mut list = Vec::new();
        for (at, leaf) in items.iter().enumerate() {
            match parse(leaf) {
                Ok(item) => list.push(item),
                Err(wrong) => {
                    let place = if leaf.loose {
                        place(&path, value.origin())
                    } else {
                        format!("{path}[{at}]")
                    };
                    self.problems.push(Problem::new(place, leaf.shown(), wrong));
                }
            }
        }
        list
    }

    /// A problem with what is written for `key`, or with its absence.
    pub(super) fn problem(&mut self, section: &Section<'_>, key: &str, wrong: Wrong) {
        let path = section.below(key).0;
        match section.value(key) {
            Some(value) => self.wrong_at(&path, value, wrong),
            None => self.problems.push(Problem::new(path, "", wrong)),
        }
    }

    /// A problem with the section as a whole.
    pub(super) fn problem_here(&mut self, section: &Section<'_>, wrong: Wrong) {
        self.problems.push(Problem::new(section.path.clone(), "", wrong));
    }

    fn wrong_at(&mut self, path: &str, value: &Value, wrong: Wrong) {
        let shown = Leaf::written(value).shown();
        self.problems.push(Problem::new(place(path, value.origin()), shown, wrong));
    }

    /// `value` as a table whose keys are all known.
    fn table<'a>(&mut self, value: &'a Value, path: &str, pattern: &str) -> Option<&'a HashMap<String, Value>> {
        let known = keys::children(pattern);
        let ValueKind::Table(table) = &value.kind else {
            let right = format!("write keys below it: {}", known.join(", "));
            self.wrong_at(path, value, Wrong::new("is not a section", right));
            return None;
        };
        self.unknown(table, path, &known);
        Some(table)
    }

    /// Reports the keys of `table` that are not `known`.
    fn unknown(&mut self, table: &HashMap<String, Value>, path: &str, known: &[&str]) {
        let mut unknown: Vec<&String> = table.keys().filter(|key| !known.contains(&key.as_str())).collect();
        unknown.sort();
        for key in unknown {
            let shown: String = key.chars().flat_map(char::escape_debug).collect();
            self.problems.push(Problem::new(
                join(path, &shown),
                "",
                Wrong::new("no key has this name", suggestion(key, known)),
            ));
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn default(section: &Section<'_>, key: &str) -> &'static str {
    let pattern = section.below(key).1;
    // invariant: a test reads every key, so a key that is missing from the table fails there.
    keys::find(&pattern).expect("a key that is read is in the table").default
}

fn split(text: &str) -> impl Iterator<Item = Leaf> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(Leaf::loose)
}
