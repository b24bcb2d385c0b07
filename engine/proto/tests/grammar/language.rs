//! The files of testdata/grammar: nouns by subject, predicates with their subjects, and whole sentences.

/// One way to say one thing of one subject in one language.
pub struct Combination {
    pub language: &'static str,
    pub subject: &'static str,
    pub predicate: &'static str,
    /// Sentences with open slots, the subject put in.
    pub sentences: Vec<String>,
}

impl Combination {
    /// What the split goes by: replies of one combination are all held out, or none is.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.language, self.subject, self.predicate)
    }
}

#[derive(Default)]
struct File {
    /// Subject, gender (0 m, 1 f, 2 n), words.
    nouns: Vec<(&'static str, usize, &'static str)>,
    /// Name, subjects, words.
    predicates: Vec<(&'static str, Vec<&'static str>, &'static str)>,
    /// Subject, name, words.
    sentences: Vec<(&'static str, &'static str, &'static str)>,
}

/// Every combination of a language, from the text of its file.
pub fn combinations(language: &'static str, text: &'static str) -> Vec<Combination> {
    let file = File::read(text);
    let mut found: Vec<Combination> = Vec::new();
    let mut add = |subject, predicate, sentence: String| {
        let known = found.iter_mut().find(|known| (known.subject, known.predicate) == (subject, predicate));
        match known {
            Some(known) => known.sentences.push(sentence),
            None => found.push(Combination { language, subject, predicate, sentences: vec![sentence] }),
        }
    };
    for (name, subjects, words) in &file.predicates {
        for (subject, gender, noun) in file.nouns.iter().filter(|noun| subjects.contains(&noun.0)) {
            add(subject, name, inflected(words, *gender).replace('$', noun));
        }
    }
    for (subject, name, words) in &file.sentences {
        add(subject, name, (*words).to_owned());
    }
    found
}

impl File {
    fn read(text: &'static str) -> File {
        let mut file = File::default();
        let mut header: Vec<&str> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split([' ', ':']).filter(|word| !word.is_empty()).collect();
            if ["subject", "predicate", "sentence"].contains(&words[0]) {
                header = words;
                continue;
            }
            match header[0] {
                "subject" => {
                    let (gender, noun) = line.split_once(' ').expect(line);
                    let gender = ["m", "f", "n"].iter().position(|known| *known == gender).expect(line);
                    file.nouns.push((header[1], gender, noun));
                }
                "predicate" => file.predicates.push((header[1], header[2..].to_vec(), line)),
                _ => file.sentences.push((header[1], header[2], line)),
            }
        }
        file
    }
}

/// Puts in the form of a gender where the words offer one for each; the last form serves for what has none.
fn inflected(words: &str, gender: usize) -> String {
    let mut out = String::new();
    for piece in words.split_inclusive('}') {
        match piece.split_once('{') {
            Some((before, forms)) if forms.contains('|') => {
                let forms: Vec<&str> = forms.trim_end_matches('}').split('|').collect();
                out.push_str(before);
                out.push_str(forms[gender.min(forms.len() - 1)]);
            }
            _ => out.push_str(piece),
        }
    }
    out
}
