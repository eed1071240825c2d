//! The lists: each word with what to write, and how it is matched.

/// A word, or the beginning of words where it ends with `*`, and the standard term.
type Word = (&'static str, &'static str);

/// Words that have a standard term wherever they stand.
const WORDS: &[Word] = &[
    ("accus*", "suspect"),
    ("acquit*", "rule out"),
    ("anew", "again, rebuild"),
    ("anybody", "name the subject: any client, any process"),
    ("everybody", "name the subject: every client, all users"),
    ("haggl*", "negotiate"),
    ("haunt*", "blocked by an abandoned write"),
    ("innocent*", "ruled out"),
    ("moody", "name what varies"),
    ("nobody", "name the subject: no client, no process"),
    ("patience", "timeout"),
    ("patient*", "with a timeout of"),
    ("reckon*", "compute"),
    ("somebody", "name the subject: another process, a client"),
    ("tell", "report, distinguish"),
    ("telling", "reporting, distinguishing"),
    ("tells", "reports, distinguishes"),
    ("told", "reported, configured, notified"),
    ("whoever", "name the subject: the caller, the client"),
    ("whom", "name the subject: the caller, the client"),
    ("wish*", "request, specification"),
];

/// Words that are right in some sentences: counted in comments, and not in messages and names.
const WORDS_OF_COMMENTS: &[Word] = &[
    ("alike", "identical, resynced, equally"),
    ("asked", "requested, queried, configured"),
    ("asks", "requests, queries"),
    ("beside", "next to, concurrently with, besides"),
    ("said", "reported, stated, configured"),
    ("whatever", "any, regardless of"),
    ("who", "name the subject: the caller, the client"),
    ("whose", "with, of which"),
];

/// Words that are counted in documents only: in code they are parts of names and of what other programs print.
const WORDS_OF_DOCUMENTS: &[Word] = &[
    ("away", "unreachable, absent, missing"),
    ("sitting", "one run, one session"),
    ("stories", "scenarios, histories"),
    ("story", "scenario, history"),
    ("wall", "limit, next bottleneck"),
    ("walls", "limits"),
];

/// Two words that have a standard term together; counted in documents only.
const PHRASES_OF_DOCUMENTS: &[([&str; 2], &str)] = &[
    (["came", "back"], "rejoined, reconnected, returned"),
    (["come", "back"], "rejoin, reconnect, return"),
    (["comes", "back"], "rejoins, reconnects, returns"),
    (["go", "on"], "continue"),
    (["goes", "on"], "continues"),
    (["holds", "still"], "held disk"),
    (["put", "right"], "repair"),
    (["went", "on"], "continued"),
];

/// The first word of the lists in a comment. What stands between backticks is a name and no prose.
pub(super) fn in_comment(text: &str) -> Option<Word> {
    prose(text).find_map(|word| find(word, WORDS).or_else(|| find(word, WORDS_OF_COMMENTS)))
}

/// The first word or phrase of the lists in a line of a document.
pub(super) fn in_document(text: &str) -> Option<Word> {
    let documents = || prose(text).find_map(|word| find(word, WORDS_OF_DOCUMENTS));
    in_comment(text).or_else(documents).or_else(|| phrase(text))
}

fn phrase(text: &str) -> Option<Word> {
    let words: Vec<String> = prose(text)
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.windows(2).find_map(|pair| {
        let is_pair = |listed: &[&str; 2]| listed.iter().zip(pair).all(|(one, word)| one == word);
        let found = PHRASES_OF_DOCUMENTS
            .iter()
            .find(|(listed, _)| is_pair(listed));
        found.map(|(listed, term)| (listed[0], *term))
    })
}

/// The first word of the list in a message.
pub(super) fn in_message(text: &str) -> Option<Word> {
    prose(text).find_map(|word| find(word, WORDS))
}

fn prose(text: &str) -> impl Iterator<Item = &str> {
    text.split('`')
        .step_by(2)
        .flat_map(|part| part.split(|letter: char| !letter.is_alphabetic()))
}

/// The first word of the list in a name in any case: `ReckonedRate`, `who_asks`.
pub(super) fn in_name(name: &str) -> Option<Word> {
    let is_constant = !name.contains(char::is_lowercase);
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && !is_constant) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.push(letter);
        }
    }
    words.iter().find_map(|word| find(word, WORDS))
}

fn find(word: &str, list: &[Word]) -> Option<Word> {
    let word = word.to_lowercase();
    list.iter()
        .copied()
        .find(|(listed, _)| match listed.strip_suffix('*') {
            Some(beginning) => word.starts_with(beginning),
            None => word == *listed,
        })
}
