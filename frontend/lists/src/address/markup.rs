//! Markup around addresses: entities, percent-encoding, tags and links.

/// Tags of HTML and of forums that stand around addresses. `<anna@b.example>` is none.
const TAGS: [&str; 26] = [
    "a", "b", "i", "u", "s", "p", "em", "strong", "span", "div", "td", "th", "tr", "li", "ul", "ol", "br",
    "font", "small", "code", "pre", "email", "url", "address", "center", "label",
];

/// The text with what its entities mean. A text without an at sign may have it percent-encoded.
pub(super) fn decoded(text: String) -> String {
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('&') {
        out += before;
        match after.split_once(';').and_then(|(name, rest)| Some((entity(name)?, rest))) {
            Some((c, behind)) => (out.push(c), rest = behind).1,
            None => (out.push('&'), rest = after).1,
        }
    }
    out += rest;
    // Links are percent-encoded (RFC 6068 2).
    let is_encoded = !out.contains('@') || out.to_ascii_lowercase().contains("mailto:");
    if is_encoded { percent_decoded(&out).unwrap_or(out) } else { out }
}

fn entity(name: &str) -> Option<char> {
    let number = |text: &str, radix| u32::from_str_radix(text, radix).ok().and_then(char::from_u32);
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "commat" => '@',
        "period" => '.',
        _ => match name.strip_prefix('#')? {
            hex if hex.starts_with(['x', 'X']) => number(&hex[1..], 16)?,
            decimal => number(decimal, 10)?,
        },
    })
    .filter(|c| !c.is_control())
}

/// The text with its percent-encoded characters (RFC 3986 2.1); `None` if it has none that is visible ASCII or a space.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let (mut out, mut rest, mut has_ascii) = (Vec::new(), text.as_bytes(), false);
    while let [first, behind @ ..] = rest {
        let code = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let digits = behind.get(..2).filter(|it| *first == b'%' && it.iter().all(u8::is_ascii_hexdigit));
        match digits.and_then(code) {
            Some(byte) => {
                has_ascii |= matches!(byte, b' '..=b'~');
                out.push(byte);
                rest = &behind[2..];
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(out).ok().filter(|_| has_ascii)
}

/// The address of a link `mailto:` (RFC 6068) without what follows it, still percent-encoded.
pub(super) fn target(link: &str) -> &str {
    let link = link.split('?').next().unwrap_or_default();
    let (at, is_name) = (link.find('@').unwrap_or(0), |c: char| c == '[' || c.is_whitespace());
    let end = link[at..].find(|c: char| c == '|' || is_name(c)).map_or(link.len(), |end| at + end);
    // Another address is no name.
    let is_one = link[end..].starts_with('|') || !link[end..].contains('@');
    if is_one { link[..end].trim() } else { link.trim() }
}

/// The text in which the address of each link stands in angle brackets, without tags.
pub(super) fn without_links(text: String) -> String {
    if let Some(link) = text.get(..12).filter(|start| start.eq_ignore_ascii_case("=HYPERLINK(\"")) {
        let target = text[link.len()..].split('"').next().unwrap_or_default();
        return format!("<{target}>");
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some(at) = rest.find(['<', '[']) {
        out += &rest[..at];
        rest = &rest[at..];
        let close = if rest.starts_with('<') { '>' } else { ']' };
        let Some((inner, behind)) = rest[1..].split_once(close) else { break };
        // `[text](link)` of Markdown.
        let link = behind.strip_prefix('(').and_then(|it| it.split_once(')')).filter(|_| close == ']');
        if let Some((target, behind)) = link.filter(|(target, _)| target.contains('@')) {
            out += &format!(" <{target}> ");
            rest = behind;
            continue;
        }
        let tag = inner.trim_start_matches('/');
        let name =
            tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
        let is_link = close == ']' && matches!(name.as_str(), "email" | "url");
        let is_tag = match tag[name.len()..].chars().next() {
            None | Some(' ' | '\t' | '\n') => TAGS.contains(&name.as_str()),
            Some('/') => inner.ends_with('/') && TAGS.contains(&name.as_str()),
            after => after == Some('=') && is_link,
        };
        if !is_tag {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
            continue;
        }
        let end = format!("{}/{name}{close}", &rest[..1]);
        (out, rest) = (out + " ", behind);
        let attribute = if is_link { &*name } else { "href" };
        let value =
            tag.to_ascii_lowercase().find(attribute).map(|at| tag[at + attribute.len()..].trim_start());
        let value = value.and_then(|value| value.strip_prefix('=')).map(|value| value.trim_start());
        let link = value.and_then(|value| match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next(),
            _ => value.split_whitespace().next(),
        });
        let is_mail = |link: &&str| name == "email" || link.to_ascii_lowercase().starts_with("mailto:");
        if let Some(link) = link.filter(is_mail) {
            out += &format!("<{link}> ");
            // The text of the link is a name.
            if let Some(at) = rest.to_ascii_lowercase().find(&end) {
                rest = &rest[at + end.len()..];
            }
        }
    }
    out + rest
}
