//! A small table for people: aligned text or Markdown.

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Text,
    /// GitHub-flavoured Markdown.
    Markdown,
    /// JSON.
    Json,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        match written {
            "text" => Ok(Self::Text),
            "markdown" | "md" => Ok(Self::Markdown),
            "json" => Ok(Self::Json),
            _ => Err(format!("unknown format `{written}`: use text, markdown or json")),
        }
    }
}

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under named columns.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, extra ones are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Two spaces between columns, no trailing white space.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let header: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut out = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            let cells: Vec<String> = self.padded(row, &widths).collect();
            out.push_str(cells.join("  ").trim_end());
            out.push('\n');
        }
        out
    }

    /// A Markdown table; `|` in a cell is escaped.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(self.columns.iter().map(|(name, _)| (*name).to_owned()).collect());
        let rule = |(_, align): &(&str, Align)| if *align == Align::Right { "---:" } else { "---" }.to_owned();
        out.push_str(&line(self.columns.iter().map(rule).collect()));
        for row in &self.rows {
            out.push_str(&line(row.iter().map(|cell| cell.replace('|', "\\|")).collect()));
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let width = |i: usize| self.rows.iter().map(move |row| row[i].chars().count()).max().unwrap_or(0);
        self.columns
            .iter()
            .enumerate()
            .map(|(i, (name, _))| width(i).max(name.chars().count()))
            .collect()
    }

    fn padded<'a>(&'a self, row: &'a [String], widths: &'a [usize]) -> impl Iterator<Item = String> + 'a {
        row.iter()
            .zip(&self.columns)
            .zip(widths)
            .map(|((cell, (_, align)), width)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("name", Align::Left), ("ms", Align::Right)]);
        table.row(["a|b".to_owned(), "1.5".to_owned()]);
        table.row(["long one".to_owned()]);
        table
    }

    #[test]
    fn text_is_aligned_and_has_no_trailing_space() {
        assert_eq!(table().text(), "name       ms\na|b       1.5\nlong one\n");
    }

    #[test]
    fn markdown_escapes_the_bar() {
        assert_eq!(
            table().markdown(),
            "| name | ms |\n| --- | ---: |\n| a\\|b | 1.5 |\n| long one |  |\n"
        );
    }
}
