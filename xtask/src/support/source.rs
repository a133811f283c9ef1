//! Source text without what is no code.

/// The text with comments, and strings if asked, replaced by blanks; lines and columns stay where they are. For Rust and C++.
pub(crate) fn code(text: &str, strings: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = out.chars().next_back();
        let (len, hide) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |i| i + 2), true)
        } else if c == '"' {
            (string_length(rest), !strings)
        } else if c == 'r' && !before.is_some_and(|b| b.is_alphanumeric() || b == '_') && raw_string_length(rest) > 0 {
            (raw_string_length(rest), !strings)
        } else if c == '\'' {
            (char_length(rest), false)
        } else {
            (c.len_utf8(), false)
        };
        let (piece, after) = rest.split_at(len);
        if hide {
            out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            out.push_str(piece);
        }
        rest = after;
    }
    out
}

fn string_length(s: &str) -> usize {
    let mut escaped = false;
    for (i, c) in s.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    s.len()
}

/// 0 if none begins here.
fn raw_string_length(s: &str) -> usize {
    let hashes = s[1..].chars().take_while(|&c| c == '#').count();
    if !s[1 + hashes..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    s[body..].find(&close).map_or(s.len(), |i| body + i + close.len())
}

/// A character literal; 1 for a lifetime or a digit separator.
fn char_length(s: &str) -> usize {
    let mut chars = s.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => s.char_indices().skip(3).find(|&(_, c)| c == '\'').map_or(1, |(i, _)| i + 1),
        Some(_) => match chars.next() {
            Some((i, '\'')) => i + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// The identifiers of a line.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_become_blanks() {
        let text = "let a = \"x // y\"; // z\nb('\"', '\\'', r#\"raw \" // \"#, 'life) /* c\nd */ e";
        assert_eq!(code(text, true), "let a = \"x // y\";     \nb('\"', '\\'', r#\"raw \" // \"#, 'life)     \n     e");
        assert_eq!(code(text, false), "let a =         ;     \nb('\"', '\\'',               , 'life)     \n     e");
        assert_eq!(words("a.b_c(1, x->y)").collect::<Vec<_>>(), ["a", "b_c", "1", "x", "y"]);
    }
}
