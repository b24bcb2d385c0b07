//! Removes the accents of letters, with which servers spell a word or not.

/// The word without accents, combining marks and U+FFFD.
pub(super) fn without_accents(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    for c in word.chars() {
        match c {
            '\u{300}'..='\u{36f}' | '\u{fffd}' => {}
            c => match without_accent(c) {
                "" => plain.push(c),
                base => plain.push_str(base),
            },
        }
    }
    plain
}

/// The letter without its accent; empty if it has no accent.
fn without_accent(c: char) -> &'static str {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'æ' => "ae",
        'œ' => "oe",
        'ç' | 'ć' | 'č' => "c",
        'ď' | 'đ' | 'ð' => "d",
        'ğ' | 'ģ' => "g",
        'ё' => "е",
        'è'..='ë' | 'ē' | 'ę' | 'ě' | 'ė' => "e",
        'ì'..='ï' | 'ī' | 'ı' | 'į' => "i",
        'ķ' => "k",
        'ł' | 'ľ' | 'ĺ' | 'ļ' => "l",
        'ñ' | 'ń' | 'ň' | 'ņ' => "n",
        'ò'..='ö' | 'ø' | 'ő' => "o",
        'ř' | 'ŕ' => "r",
        'ś' | 'š' | 'ş' | 'ș' => "s",
        'ť' | 'ț' | 'ţ' => "t",
        'ß' => "ss",
        'ù'..='ü' | 'ů' | 'ű' | 'ų' | 'ū' => "u",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        'ά' => "α",
        'έ' => "ε",
        'ή' => "η",
        'ί' | 'ϊ' => "ι",
        'ό' => "ο",
        'ς' => "σ",
        'ύ' => "υ",
        'ώ' => "ω",
        _ => "",
    }
}
