//! Addresses of ComfyUI: the origin of a page, and the base of its HTTP interface. One canonical form each, so that
//! they are compared as texts.

use reqwest::Url;
use serde::Deserialize;
use std::fmt;

/// The origin of a page, as a browser sends it: scheme, host in lower case, and the port unless it is the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Origin(String);

impl Origin {
    /// Reads an origin that a person wrote; a slash at the end is forgiven.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence without a full stop.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = web_address(text)?;
        if url.path() != "/" {
            return Err(format!("`{text}` is an address with a path: leave out all after host and port"));
        }
        Ok(Self(url.origin().ascii_serialization()))
    }

    /// The text, as it stands in an `Origin` header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// Where a ComfyUI answers: `http` or `https`, host, port, and a path if it is behind one; no slash at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct ComfyUrl(String);

impl ComfyUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence without a full stop.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = web_address(text)?;
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// The text, without a slash at the end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ComfyUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for ComfyUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// Longest address that is looked at.
const MOST_CHARACTERS: usize = 2_048;

fn web_address(text: &str) -> Result<Url, String> {
    let wanted = "write it like `http://127.0.0.1:8188`";
    if text.len() > MOST_CHARACTERS {
        return Err(format!("it is longer than {MOST_CHARACTERS} characters: {wanted}"));
    }
    let url = Url::parse(text.trim()).map_err(|problem| format!("`{text}` is no address ({problem}): {wanted}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("`{text}` is no http or https address: {wanted}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("an address with a user name or a password is not taken: {wanted}"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("`{text}` has a `?` or `#` part: {wanted}"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;

    #[test]
    fn an_origin_has_one_form() {
        assert_eq!(Origin::parse("HTTP://LocalHost:80/").unwrap().as_str(), "http://localhost");
        assert_eq!(Origin::parse("https://comfy.example:8443").unwrap().as_str(), "https://comfy.example:8443");
        for wrong in ["null", "*", "127.0.0.1:8188", "file:///x", "http://a/b", "http://a?x", "http://u:p@a", "ws://a"]
        {
            assert!(Origin::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_may_have_a_path_and_no_secret() {
        assert_eq!(ComfyUrl::parse("http://127.0.0.1:8188/").unwrap().as_str(), "http://127.0.0.1:8188");
        assert_eq!(ComfyUrl::parse("https://h/comfy/").unwrap().as_str(), "https://h/comfy");
        let refused = ComfyUrl::parse("http://me:hidden@h/").unwrap_err();
        assert!(!refused.contains("hidden"), "{refused}");
    }
}
