//! Loads code objects and says what is not known of them.
use std::collections::BTreeMap;
fn main() {
    let mut bad: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let (mut ok, mut n) = (0, 0);
    for path in std::env::args().skip(1) {
        n += 1;
        match amdgpu_interp::CodeObject::load(&std::fs::read(&path).unwrap()) {
            Ok(_) => ok += 1,
            Err(e) => {
                let text = e.to_string();
                let key = text.split('`').nth(1).map_or(text.clone(), |t| t.split(' ').next().unwrap_or_default().into());
                bad.entry(key).or_insert((0, text)).0 += 1;
            }
        }
    }
    println!("{ok} of {n}");
    for (k, (n, e)) in bad {
        println!("{n} {k}: {e}");
    }
}
