//! Set-up, build, run, test, bench and package: everything a person would otherwise type.
fn main() {}
