//! What a person's sentence asks of the built-in helper. Pure; knows no tool and no canvas.

use serde_json::Value;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Say what can be asked.
    Help,
    /// Add a node of this type.
    Add { class: String },
    /// Link two nodes.
    Connect { from: End, to: End },
    /// Set a widget; without a node, that of the only node that has it.
    Set { widget: String, node: Option<Named>, value: Value },
    /// Remove a node.
    Remove { node: Named },
    /// Make a new workflow.
    New,
    /// Tell which workflows are open.
    List,
    /// Bring a workflow to the front.
    Open { name: String },
    /// Tell what is on the canvas.
    Outline,
    /// Tell what is wrong with the graph.
    Errors,
    /// Run the workflow so many times.
    Run { times: u64 },
    /// Save the workflow, under this name if one is given.
    Save { name: Option<String> },
    /// Act on the workflow in front from now on.
    UseCurrent,
    /// Build the graph that makes an image from a text.
    BuildTextToImage,
    /// Something happened; nothing is asked.
    Event { text: String },
}

/// A node, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// By its id.
    Id(String),
    /// By its type or title.
    Word(String),
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// The node.
    pub(super) node: Named,
    /// The slot, if one is named.
    pub(super) slot: Option<String>,
}

/// Everything that a text asks for, in order. Lines that ask for nothing known are passed over.
pub(super) fn understand(text: &str) -> Vec<Request> {
    text.lines().flat_map(pieces).filter_map(|piece| one(&piece)).collect()
}

// A value may hold anything, so a sentence that sets one is not cut.
fn pieces(line: &str) -> Vec<String> {
    let plain = polite(line);
    if starts_with_word(&plain, "set") || starts_with_word(&plain, "change") || line.trim_start().starts_with('[') {
        return vec![line.to_owned()];
    }
    let line = replace_words(line, " and then ", ";");
    let line = replace_words(&line, " then ", ";");
    line.split(';').map(str::to_owned).collect()
}

fn replace_words(text: &str, words: &str, by: &str) -> String {
    let mut rest = text;
    let mut result = String::new();
    while let Some(at) = find(rest, words) {
        result.push_str(&rest[..at]);
        result.push_str(by);
        rest = &rest[at + words.len()..];
    }
    result.push_str(rest);
    result
}

// Only ASCII letters change, so that every index holds for the text as it was.
fn find(text: &str, words: &str) -> Option<usize> {
    text.to_ascii_lowercase().find(words)
}

fn starts_with_word(text: &str, word: &str) -> bool {
    after(text, word).is_some()
}

/// The rest of a text that begins with this word or these words.
fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let head = text.get(..words.len())?;
    let rest = &text[words.len()..];
    let ends = rest.is_empty() || rest.starts_with(char::is_whitespace);
    (head.eq_ignore_ascii_case(words) && ends).then(|| rest.trim_start())
}

fn after_any<'a>(text: &'a str, choices: &[&str]) -> Option<&'a str> {
    choices.iter().find_map(|words| after(text, words))
}

const FILLERS: [&str; 14] = [
    "please",
    "could you",
    "can you",
    "would you",
    "will you",
    "now",
    "ok",
    "okay",
    "and",
    "then",
    "also",
    "i want to",
    "i want you to",
    "let's",
];
const ARTICLES: [&str; 9] = ["the", "a", "an", "another", "one", "my", "me", "new", "this"];

/// The sentence without courtesies and without its last sign.
fn polite(text: &str) -> String {
    let mut rest = text.trim().trim_end_matches(['.', '!', '?', ',']).trim_end();
    if let Some(shorter) = rest.to_ascii_lowercase().strip_suffix(" please").map(str::len) {
        rest = rest[..shorter].trim_end_matches([',', ' ']);
    }
    loop {
        let shorter =
            after_any(rest, &FILLERS).or_else(|| FILLERS.iter().find_map(|word| after(rest, &format!("{word},"))));
        match shorter {
            Some(shorter) if !shorter.is_empty() => rest = shorter,
            Some(_) | None => return rest.to_owned(),
        }
    }
}

fn one(piece: &str) -> Option<Request> {
    if let Some(event) = piece.trim().strip_prefix("[event]") {
        return Some(Request::Event { text: event.trim().to_owned() });
    }
    let text = polite(piece);
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> =
        lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let has = |word: &str| words.contains(&word);
    let begins = |choices: &[&str]| words.first().is_some_and(|word| choices.contains(word));

    if matches!(lower.as_str(), "help" | "hi" | "hello" | "hey" | "what can you do" | "what can i ask" | "commands") {
        return Some(Request::Help);
    }
    if matches!(
        lower.as_str(),
        "use the current one"
            | "use the current workflow"
            | "use the current"
            | "use current"
            | "use this one"
            | "use it"
            | "use this workflow"
            | "use this"
            | "take the current one"
            | "work on this one"
            | "use the one in front"
    ) {
        return Some(Request::UseCurrent);
    }
    let making = begins(&["build", "create", "make", "add", "set", "generate", "give", "show"]);
    if making && (lower.contains("text-to-image") || lower.contains("text to image") || has("txt2img") || has("t2i")) {
        return Some(Request::BuildTextToImage);
    }
    if has("workflow")
        && (begins(&["new"]) || (begins(&["create", "make", "open", "start", "add"]) && (has("new") || has("empty"))))
    {
        return Some(Request::New);
    }
    if has("workflows") && begins(&["list", "show", "which", "what"]) {
        return Some(Request::List);
    }
    if begins(&["outline"])
        || (has("canvas") && begins(&["what", "describe", "show", "outline", "look"]))
        || (has("graph") && begins(&["describe", "show", "outline", "what"]))
    {
        return Some(Request::Outline);
    }
    if (begins(&["what", "why"]) && (has("wrong") || has("failed") || has("fail")))
        || lower == "errors"
        || lower == "show errors"
    {
        return Some(Request::Errors);
    }
    run(&text)
        .or_else(|| save(&text))
        .or_else(|| set(&text))
        .or_else(|| connect(&text))
        .or_else(|| after_any(&text, &["remove", "delete"]).and_then(named).map(|node| Request::Remove { node }))
        .or_else(|| after_any(&text, &["open", "switch to", "go to"]).and_then(open))
        .or_else(|| after_any(&text, &["add", "insert", "put", "create", "place"]).and_then(add))
}

fn run(text: &str) -> Option<Request> {
    let rest = after_any(text, &["run", "queue", "generate", "execute"])?;
    let mut times = 1;
    for word in rest.split_whitespace().map(str::to_ascii_lowercase) {
        match word.as_str() {
            "it" | "the" | "this" | "workflow" | "graph" | "now" | "again" | "times" | "once" | "prompt" | "an"
            | "image" => {}
            "twice" => times = 2,
            number => times = number.trim_end_matches('x').parse().ok().filter(|times| (1..=100).contains(times))?,
        }
    }
    Some(Request::Run { times })
}

fn save(text: &str) -> Option<Request> {
    let rest = after(text, "save")?;
    let rest = after_any(rest, &["it", "this", "the workflow", "this workflow"]).unwrap_or(rest);
    match after_any(rest, &["as", "under", "to"]) {
        Some(name) => unquoted(name).map(|name| Request::Save { name: Some(name) }),
        None => rest.is_empty().then_some(Request::Save { name: None }),
    }
}

fn set(text: &str) -> Option<Request> {
    let rest = after_any(text, &["set", "change"])?;
    let at = find(rest, " to ").or_else(|| rest.find('=').filter(|at| *at > 0))?;
    let (what, value) = if rest[at..].starts_with('=') {
        (&rest[..at], &rest[at + 1..])
    } else {
        (&rest[..at], &rest[at + " to ".len()..])
    };
    let value = value_of(value)?;
    let what = without_articles(what.trim());
    let of = [" of ", " on ", " in "].iter().find_map(|word| find(what, word).map(|at| (at, word.len())));
    if let Some((at, length)) = of {
        let widget = name_of_widget(&what[..at])?;
        return Some(Request::Set { widget, node: Some(named(&what[at + length..])?), value });
    }
    if let Some((node, widget)) = what.rsplit_once('.') {
        return Some(Request::Set { widget: name_of_widget(widget)?, node: Some(named(node)?), value });
    }
    Some(Request::Set { widget: name_of_widget(what)?, node: None, value })
}

fn name_of_widget(text: &str) -> Option<String> {
    let text = text.trim().trim_matches(['"', '\'', '`']);
    (!text.is_empty()).then(|| text.split_whitespace().collect::<Vec<_>>().join("_"))
}

fn value_of(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Some(quoted) = in_quotes(text) {
        return Some(Value::String(quoted.to_owned()));
    }
    if text.is_empty() {
        return None;
    }
    let word = text.to_ascii_lowercase();
    Some(match word.as_str() {
        "true" | "on" | "yes" => Value::Bool(true),
        "false" | "off" | "no" => Value::Bool(false),
        _ => match serde_json::from_str::<Value>(text) {
            Ok(number @ Value::Number(_)) => number,
            _ => Value::String(text.to_owned()),
        },
    })
}

fn connect(text: &str) -> Option<Request> {
    let rest = after_any(text, &["connect", "link", "wire"])?;
    let (at, length) =
        [" to ", " with ", " into ", " -> "].iter().find_map(|word| find(rest, word).map(|at| (at, word.len())))?;
    Some(Request::Connect { from: end(&rest[..at])?, to: end(&rest[at + length..])? })
}

/// `KSampler`, `#3`, `3.LATENT`, `MODEL of 4`, `the MODEL output of the loader`, `3 model`.
fn end(text: &str) -> Option<End> {
    let text = without_articles(text.trim());
    if let Some(at) = find(text, " of ") {
        let slot = text[..at].trim();
        let lower = slot.to_ascii_lowercase();
        let kept = [" output", " input"].iter().find_map(|word| lower.strip_suffix(word)).map_or(slot.len(), str::len);
        return Some(End { node: named(&text[at + " of ".len()..])?, slot: unquoted(&slot[..kept]) });
    }
    if let Some((node, slot)) = text.split_once('.') {
        return Some(End { node: named(node)?, slot: unquoted(slot) });
    }
    match (named(text)?, text.split_once(char::is_whitespace)) {
        (Named::Word(_), Some((first, slot))) if is_id(first) => {
            Some(End { node: Named::Id(first.trim_start_matches('#').to_owned()), slot: unquoted(slot) })
        }
        (node, _) => Some(End { node, slot: None }),
    }
}

fn open(text: &str) -> Option<Request> {
    let text = after_any(text, &["the workflow", "workflow"]).unwrap_or(text);
    unquoted(text).map(|name| Request::Open { name })
}

fn add(text: &str) -> Option<Request> {
    let text = without_articles(text);
    let lower = text.to_ascii_lowercase();
    let kept = lower.strip_suffix(" node").map_or(text.len(), str::len);
    unquoted(&text[..kept]).filter(|class| class.split_whitespace().count() <= 5).map(|class| Request::Add { class })
}

fn without_articles(text: &str) -> &str {
    let mut rest = text;
    while let Some(shorter) = after_any(rest, &ARTICLES).filter(|shorter| !shorter.is_empty()) {
        rest = shorter;
    }
    rest
}

fn named(text: &str) -> Option<Named> {
    let text = without_articles(text.trim());
    let text = after(text, "node").filter(|rest| !rest.is_empty()).unwrap_or(text);
    let lower = text.to_ascii_lowercase();
    let text = text[..lower.strip_suffix(" node").map_or(text.len(), str::len)].trim();
    if is_id(text) {
        return Some(Named::Id(text.trim_start_matches('#').to_owned()));
    }
    unquoted(text).map(Named::Word)
}

fn is_id(text: &str) -> bool {
    let text = text.trim_start_matches('#');
    text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.chars().all(|letter| letter.is_ascii_digit() || letter == ':')
}

fn in_quotes(text: &str) -> Option<&str> {
    [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”')]
        .into_iter()
        .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
}

fn unquoted(text: &str) -> Option<String> {
    let text = text.trim();
    let text = in_quotes(text).unwrap_or(text).trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]
mod tests {
    use super::*;
    use serde_json::json;

    fn only(text: &str) -> Request {
        let mut all = understand(text);
        assert_eq!(all.len(), 1, "{text}: {all:?}");
        all.remove(0)
    }

    fn add(class: &str) -> Request {
        Request::Add { class: class.into() }
    }

    fn word(text: &str) -> Named {
        Named::Word(text.into())
    }

    fn id(text: &str) -> Named {
        Named::Id(text.into())
    }

    #[test]
    fn nodes_are_added_however_one_asks() {
        for text in [
            "add KSampler",
            "Add a KSampler node.",
            "please add the KSampler!",
            "Could you insert a new KSampler node, please?",
        ] {
            assert_eq!(only(text), add("KSampler"), "{text}");
        }
        assert_eq!(only("add a load checkpoint"), add("load checkpoint"));
        assert_eq!(only("ADD \"CLIP Text Encode\""), add("CLIP Text Encode"));
    }

    #[test]
    fn links_are_made_with_and_without_slots() {
        let link = |from, out: Option<&str>, to, into: Option<&str>| Request::Connect {
            from: End { node: from, slot: out.map(str::to_owned) },
            to: End { node: to, slot: into.map(str::to_owned) },
        };
        assert_eq!(
            only("connect CheckpointLoaderSimple to KSampler"),
            link(word("CheckpointLoaderSimple"), None, word("KSampler"), None)
        );
        assert_eq!(only("Connect #4 to node 3"), link(id("4"), None, id("3"), None));
        assert_eq!(only("link 4.MODEL to 3.model"), link(id("4"), Some("MODEL"), id("3"), Some("model")));
        assert_eq!(
            only("wire the CLIP output of node 4 into the clip input of 6"),
            link(id("4"), Some("CLIP"), id("6"), Some("clip"))
        );
        assert_eq!(only("connect 4 VAE to 8 vae"), link(id("4"), Some("VAE"), id("8"), Some("vae")));
        assert_eq!(understand("connect the dots"), []);
    }

    #[test]
    fn values_keep_their_type_and_their_text() {
        let set = |widget: &str, node, value| Request::Set { widget: widget.into(), node, value };
        assert_eq!(only("set steps of KSampler to 30"), set("steps", Some(word("KSampler")), json!(30)));
        assert_eq!(only("Set the cfg of node 3 to 7.5."), set("cfg", Some(id("3")), json!(7.5)));
        assert_eq!(only("set sampler name of #3 to euler"), set("sampler_name", Some(id("3")), json!("euler")));
        assert_eq!(
            only("change 6.text to \"a cat; then a dog to pet\""),
            set("text", Some(id("6")), json!("a cat; then a dog to pet"))
        );
        assert_eq!(
            only("set text of 6 to a cat and then a dog"),
            set("text", Some(id("6")), json!("a cat and then a dog"))
        );
        assert_eq!(only("set seed=5"), set("seed", None, json!(5)));
        assert_eq!(only("set tiling of 9 to on"), set("tiling", Some(id("9")), json!(true)));
    }

    #[test]
    fn the_rest_of_the_vocabulary() {
        for (text, request) in [
            ("Help", Request::Help),
            ("what can you do?", Request::Help),
            ("new workflow", Request::New),
            ("create a new workflow", Request::New),
            ("list workflows", Request::List),
            ("Which workflows are open?", Request::List),
            ("what is on the canvas?", Request::Outline),
            ("outline", Request::Outline),
            ("What's wrong?", Request::Errors),
            ("run", Request::Run { times: 1 }),
            ("Run the workflow 3 times", Request::Run { times: 3 }),
            ("save", Request::Save { name: None }),
            ("save it as my portrait", Request::Save { name: Some("my portrait".into()) }),
            ("open workflow \"b\"", Request::Open { name: "b".into() }),
            ("remove node 5", Request::Remove { node: id("5") }),
            ("Use the current one.", Request::UseCurrent),
            ("build a text-to-image graph", Request::BuildTextToImage),
            ("please make me a simple text to image workflow", Request::BuildTextToImage),
            ("[event] Run p1 ended: success.", Request::Event { text: "Run p1 ended: success.".into() }),
        ] {
            assert_eq!(only(text), request, "{text}");
        }
    }

    #[test]
    fn several_requests_keep_their_order_and_other_words_are_passed_over() {
        assert_eq!(
            understand("[The canvas in front: untitled]\nadd a KSampler; add a VAEDecode, then run it"),
            [add("KSampler"), add("VAEDecode"), Request::Run { times: 1 }]
        );
        for text in ["", "the weather is nice", "running late", "saves", "ändere etwas", "run away with me", "set"] {
            assert_eq!(understand(text), [], "{text}");
        }
    }
}
