//! Patterns, and texts that name what was seen before.

use serde_json::Value;

/// Whether a value has at least what a pattern asks for: see [`super::Step`].
pub(super) fn matches(pattern: &Value, value: &Value) -> bool {
    match (pattern, value) {
        (Value::Object(wanted), Value::Object(there)) => {
            wanted.iter().all(|(name, wanted)| matches(wanted, there.get(name).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(there)) => {
            let mut rest = there.iter();
            wanted.iter().all(|wanted| rest.any(|one| matches(wanted, one)))
        }
        (Value::String(wanted), Value::String(there)) => match wanted.strip_prefix('~') {
            Some(part) => there.contains(part),
            None => wanted == there,
        },
        (wanted, there) => wanted == there,
    }
}

/// Replaces every text that begins with `$` by what it names.
///
/// # Errors
/// A name that means nothing yet.
pub(super) fn fill(value: &mut Value, lookup: &dyn Fn(&str, &str) -> Option<Value>) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix('$') {
                let found = name.split_once('.').and_then(|(whose, what)| lookup(whose, what));
                *value = found.ok_or_else(|| format!("`${name}` names nothing that was seen"))?;
            }
            Ok(())
        }
        Value::Array(list) => list.iter_mut().try_for_each(|one| fill(one, lookup)),
        Value::Object(map) => map.values_mut().try_for_each(|one| fill(one, lookup)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// A field of a value, deeper with each dot.
pub(super) fn field<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| match value {
        Value::Array(list) => name.parse::<usize>().ok().and_then(|at| list.get(at)),
        other => other.get(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pattern_asks_for_a_part() {
        let value = json!({"a": 1, "list": [{"x": 1}, {"x": 2, "y": "hello there"}], "n": null});
        for pattern in [
            json!({}),
            json!({"a": 1, "gone": null}),
            json!({"list": [{"x": 2}]}),
            json!({"list": [{"x": 1}, {"y": "~there"}]}),
        ] {
            assert!(matches(&pattern, &value), "{pattern}");
        }
        for pattern in [
            json!({"a": 2}),
            json!({"a": null}),
            json!({"list": [{"x": 2}, {"x": 1}]}),
            json!({"list": [{"y": "there"}]}),
            json!([]),
        ] {
            assert!(!matches(&pattern, &value), "{pattern}");
        }
    }

    #[test]
    fn a_name_that_means_nothing_is_an_error() {
        let lookup = |whose: &str, what: &str| (whose == "T1" && what == "tab").then(|| json!("t1"));
        let mut value = json!({"tab": "$T1.tab", "list": ["$T1.tab"]});
        assert_eq!(fill(&mut value, &lookup), Ok(()));
        assert_eq!(value, json!({"tab": "t1", "list": ["t1"]}));
        assert!(fill(&mut json!("$T2.tab"), &lookup).is_err());
        assert_eq!(field(&json!({"a": [{"b": 3}]}), "a.0.b"), Some(&json!(3)));
    }
}
