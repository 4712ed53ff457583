//! Every recorded reply can be explained, and the proxy's own definition finds in it what the fixture says is there.

use std::fs;
use std::path::Path;

use goodput_proxy::report::{Format, explain, recorded};
use goodput_proxy::wire::FORMATS;

#[test]
fn every_fixture_is_explained_with_the_first_token_where_it_is() {
    let (mut explained, mut streams) = (0, 0);
    for format in FORMATS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/wire")
            .join(format.name);
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "stream") {
                continue;
            }
            let mut recorded = recorded::parse(&fs::read(&path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            recorded.set_path(format.paths.iter().find(|p| !p.contains('*')).unwrap_or(&format.paths[0]));
            let rows = explain::rows(&recorded, None).unwrap();
            assert_eq!(rows[0].name, "goodput");
            for format in [Format::Text, Format::Markdown, Format::Json] {
                assert!(
                    explain::render(&recorded, &rows, format).contains("goodput"),
                    "{}",
                    path.display()
                );
            }
            explained += 1;
            let expect = fs::read_to_string(path.with_extension("expect")).unwrap();
            let line = |key: &str| expect.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
            if line("stream") == Some("true") && recorded.status.is_none_or(|s| s == 200) {
                let first = line("first_ns").and_then(|ns| ns.parse::<u64>().ok());
                assert_eq!(rows[0].answer.ttft_ns, first, "{}", path.display());
                streams += 1;
            }
        }
    }
    assert!(explained >= 60 && streams >= 30, "{explained} explained, {streams} streams");
}
