//! Figures and how they are shown.

use serde_json::{Value, json};
use std::time::Duration;

/// The result: one row a figure.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    what: String,
    /// Name, value, unit.
    figures: Vec<(&'static str, f64, &'static str)>,
    note: String,
}

impl Table {
    /// Adds a row.
    pub(crate) fn row(&mut self, what: impl Into<String>, figures: &[(&'static str, f64, &'static str)]) {
        self.rows.push(Row { what: what.into(), figures: figures.to_vec(), note: String::new() });
    }

    /// Adds a row for something that could not be measured.
    pub(crate) fn skipped(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.rows.push(Row { what: what.into(), figures: Vec::new(), note: format!("not measured: {}", why.into()) });
    }

    /// Adds a row of times in microseconds: the median and the 99th percentile.
    pub(crate) fn times(&mut self, what: impl Into<String>, times: &mut [Duration]) {
        let (middle, high) = (percentile(times, 50), percentile(times, 99));
        self.row(what, &[("p50", micros(middle), "µs"), ("p99", micros(high), "µs")]);
    }

    /// The same as `times` with what it is of a floor.
    pub(crate) fn times_beside(&mut self, what: impl Into<String>, times: &mut [Duration], floor: &str) {
        let before = self.rows.iter().find(|row| row.what == floor).and_then(|row| row.figures.first());
        let before = before.map(|figure| figure.1);
        self.times(what, times);
        if let (Some(before), Some(row)) = (before.filter(|before| *before > 0.0), self.rows.last_mut()) {
            let now = row.figures.first().map_or(0.0, |figure| figure.1);
            row.note = format!("{:.1} × {floor}", now / before);
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let wide = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            let figures: Vec<String> =
                row.figures.iter().map(|(name, value, unit)| format!("{name} {} {unit}", rounded(*value))).collect();
            let pad = " ".repeat(wide - row.what.chars().count());
            let note = if row.note.is_empty() { String::new() } else { format!("   ({})", row.note) };
            text.push_str(format!("{}{pad}  {}{note}", row.what, figures.join("   ")).trim_end());
            text.push('\n');
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let figures: Vec<Value> = row
                    .figures
                    .iter()
                    .map(|(name, value, unit)| json!({"name": name, "value": value, "unit": unit}))
                    .collect();
                json!({"what": row.what, "figures": figures, "note": row.note})
            })
            .collect();
        json!({"rows": rows})
    }
}

/// A percentile; sorts the times.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    times.get((times.len() * percent / 100).min(last)).copied().unwrap_or_default()
}

/// Microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn rounded(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
