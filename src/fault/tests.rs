//! The table of codes is whole, and what is told of a fault can be shown.

use super::*;

#[test]
fn a_message_holds_nothing_that_a_terminal_obeys() {
    let fault = Fault::new(Code::NotFound, "there is no file 'a\u{1b}[2J\nb'").hint("not 'c\u{7}'".to_owned());
    assert_eq!((fault.message.as_str(), &*fault.hint), ("there is no file 'a<U+001B>[2J b'", "not 'c<U+0007>'"));
    assert_eq!(Warning::new("x", "a\tb\u{85}").message, "a b<U+0085>");
}

#[test]
fn every_code_is_found_by_its_text_and_ends_nonzero() {
    for code in Code::ALL {
        assert_eq!(Code::from_code(code.as_str()), Some(*code));
        assert_ne!(code.exit().code(), 0, "{}", code.as_str());
    }
}
