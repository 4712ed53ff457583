//! Files and values that nobody means to write: never a panic, always a problem at the right place.

use std::path::Path;

use goodput_proxy::config::{File, Flag, Sources, Syntax, keys};

use super::{environment, load, sources};

#[test]
fn a_file_that_cannot_be_read_is_one_problem_beside_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let read = |path: &Path| {
        File::read(path)
            .unwrap_err()
            .to_string()
            .replace(&folder.path().display().to_string(), "")
    };
    assert_eq!(
        read(&path("none.yaml")),
        "/none.yaml: No such file or directory (os error 2); name a file that can be read"
    );
    let conf = "/goodput.conf: the file's name says neither YAML nor TOML; call it `.yaml`, `.yml` or `.toml`";
    assert_eq!(read(&path("goodput.conf")), conf);
    std::fs::write(path("big.yaml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(
        read(&path("big.yaml")),
        "/big.yaml: the file has 1048577 bytes; keep it within 1 MiB"
    );
    for (text, syntax, expected) in [
        (
            "listen: [",
            Syntax::Yaml,
            "while parsing a node, did not find expected node content at byte 9 line 2 column 1",
        ),
        (
            "a: 1\na: 2",
            Syntax::Yaml,
            "`a`: duplicated key in mapping at byte 8 line 2 column 4",
        ),
        ("- a", Syntax::Yaml, "invalid type: sequence, expected a map"),
        ("listen =", Syntax::Toml, "TOML parse error at line 1, column 9"),
    ] {
        let mut sources = sources(text, syntax);
        sources.flags = vec![Flag {
            name: "--admin",
            key: "admin",
            value: "x".to_owned(),
        }];
        let found = load(&sources).expect_err(text);
        assert_eq!(found.len(), 2, "{text}");
        let language = if syntax == Syntax::Yaml { "YAML" } else { "TOML" };
        assert!(
            found[0].starts_with(&format!("test: is not a {language} table: {expected}")),
            "{}",
            found[0]
        );
        assert!(found[1].starts_with("--admin: \"x\": is not an address"), "{}", found[1]);
    }
}

/// The document that sets the key at `path` to `value`, list elements as the only ones of their list.
fn document(path: &str, value: &str) -> String {
    path.rsplit('.')
        .fold(value.to_owned(), |inner, name| match name.strip_suffix("[]") {
            Some(list) => format!("{{ {list}: [{inner}] }}"),
            None => format!("{{ {name}: {inner} }}"),
        })
}

#[test]
fn no_value_of_any_key_is_a_surprise() {
    let long = format!("'{}'", "9".repeat(1000));
    let odd = [
        "~",
        "true",
        "-1",
        "0",
        "9223372036854775807",
        "1e308",
        "''",
        "' '",
        "'off'",
        r#""\0""#,
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[~]",
        "'99999999999999999999h'",
        "'1.0000000000000000001s'",
        "'18446744073709551615..0'",
        "'é'",
        "[a, a]",
        &long,
    ];
    for key in keys() {
        for value in odd {
            let text = document(key.path, value);
            let Err(problems) = load(&sources(&text, Syntax::Yaml)) else {
                continue;
            };
            let top = key.path.split(['.', '[']).next().unwrap();
            assert!(
                problems.iter().all(|problem| problem.starts_with(top)),
                "{text}: {problems:?}"
            );
            let repeated = problems
                .iter()
                .enumerate()
                .any(|(at, problem)| problems[..at].contains(problem));
            assert!(!repeated, "{text}: {problems:?}");
        }
        // A key that is there but holds a section of unknown keys is always wrong, and said to be so at its own path.
        let nested = sources(&document(key.path, "{ nobody: 1 }"), Syntax::Yaml);
        let problems = load(&nested).expect_err(key.path);
        let at = key.path.replace("[]", "[0]");
        assert!(
            problems.iter().any(|problem| problem.starts_with(&format!("{at}: "))),
            "{}: {problems:?}",
            key.path
        );
    }
}

#[test]
fn no_variable_is_a_surprise() {
    for key in keys().iter().filter(|key| !key.path.contains('[')) {
        let name = format!("GOODPUT__{}", key.path.to_uppercase().replace('.', "__"));
        for value in [
            "true",
            "-1",
            "0",
            " ",
            "off",
            "NaN",
            "1,2",
            ",",
            "\u{1b}[31m",
            "é",
            "99999999999999999999999999",
        ] {
            let sources = Sources {
                environment: environment(&[(&name, value)]),
                ..Sources::default()
            };
            let Err(problems) = load(&sources) else { continue };
            assert!(
                problems
                    .iter()
                    .all(|problem| problem.starts_with(&format!("{name} (environment): "))),
                "{problems:?}"
            );
            assert!(!problems.iter().any(|problem| problem.contains('\u{1b}')), "{problems:?}");
        }
    }
}
