//! Takes from a source what is code: no comments, no strings, no tests, every line where it was.

/// The code with comments, strings and characters blanked out, line by line as it was.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut i) = (String::with_capacity(text.len()), 0);
    let blank = |out: &mut String, part: &[char]| out.extend(part.iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
    while i < chars.len() {
        let end = match (chars[i], chars.get(i + 1)) {
            ('/', Some('/')) => chars[i..].iter().position(|c| *c == '\n').map_or(chars.len(), |n| i + n),
            ('/', Some('*')) => {
                (i + 2..chars.len()).find(|n| chars[*n - 1..].starts_with(&['*', '/'])).map_or(chars.len(), |n| n + 1)
            }
            ('r', Some('"' | '#'))
                if !i.checked_sub(1).is_some_and(|p| chars[p].is_alphanumeric() || chars[p] == '_') =>
            {
                raw_string(&chars, i)
            }
            ('"', _) => string(&chars, i),
            ('\'', _) => character(&chars, i),
            _ => i,
        };
        if end > i {
            blank(&mut out, &chars[i..end]);
            i = end;
        } else {
            out.push(chars[i]);
            i += 1;
        }
    }
    out
}

/// The end of the raw string that starts at `i`; `i` when none does.
fn raw_string(chars: &[char], i: usize) -> usize {
    let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(i + 1 + hashes) != Some(&'"') {
        return i;
    }
    let body = i + 2 + hashes;
    let ends =
        |n: &usize| chars[*n] == '"' && chars[*n + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    (body..chars.len()).find(ends).map_or(chars.len(), |n| n + 1 + hashes)
}

/// The end of the string that starts at `i`.
fn string(chars: &[char], i: usize) -> usize {
    let mut n = i + 1;
    while n < chars.len() {
        match chars[n] {
            '\\' => n += 2,
            '"' => return n + 1,
            _ => n += 1,
        }
    }
    chars.len()
}

/// The end of the character that starts at `i`; `i` when it is a lifetime.
fn character(chars: &[char], i: usize) -> usize {
    match (chars.get(i + 1), chars.get(i + 2)) {
        (Some('\\'), _) => chars[i + 3..].iter().position(|c| *c == '\'').map_or(i, |n| i + 3 + n + 1),
        (Some(_), Some('\'')) => i + 3,
        _ => i,
    }
}

/// The code with the bodies of `#[cfg(test)]` modules blanked out, line by line as it was.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let (mut marked, mut inside) = (false, None);
    for line in code.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(outer) = inside {
            if indent == outer && line.trim_start().starts_with('}') {
                inside = None;
            }
            out.push('\n');
            continue;
        }
        let opens_module = marked && line.trim_start().starts_with("mod ") && line.trim_end().ends_with('{');
        if opens_module {
            inside = Some(indent);
            out.push('\n');
            continue;
        }
        marked = line.trim_start().starts_with("#[cfg(test)]") || (marked && line.trim_start().starts_with("#["));
        out.push_str(line);
        out.push('\n');
    }
    out
}
