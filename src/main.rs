//! Parses, runs, prints the error once, exits.

fn main() {}
